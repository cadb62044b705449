"""What pytest's processes and quick commands run loads none of the packages that take a second to import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opscope.harness.cli.main import root

QUERY = "from opscope.harness.cli.main import root; root.main(['sql'], standalone_mode=False)"
LIGHT = {
    "a query": (QUERY, "opscope.harness.record.records opscope.wire pydantic sqlalchemy alembic jax numpy xdsl pytest"),
    "a query's rows as JSON": (
        "import os; from opscope.harness.cli.main import root; "
        "root.main(['sql', 'SELECT 1 AS one', '--db', os.environ['RESULTS'], '--json'], standalone_mode=False)",
        "opscope.harness.record.records opscope.wire pydantic sqlalchemy jax numpy xdsl pytest",
    ),
    "the version": (
        "from opscope.harness.cli.main import root; root.main(['--version'], standalone_mode=False)",
        "opscope.wire pydantic sqlalchemy jax numpy",
    ),
    "the list of commands": (
        "from opscope.harness.cli.main import root; root.main(['--help'], standalone_mode=False)",
        "opscope.wire.answer sqlalchemy jax",
    ),
    "a command": (
        "from opscope.harness.cli.main import root; root.main(['config'], standalone_mode=False)",
        "sqlalchemy jax numpy xdsl altair",
    ),
    "what prints no JSON": (
        "from opscope.harness.cli.main import root; root.main(['models'], standalone_mode=False); "
        "root.main(['config'], standalone_mode=False)",
        "opscope.wire.answer opscope.wire.config sqlalchemy jax numpy",
    ),
    "frontends that are listed": (
        "from opscope.models import frontends as f; [f.missing(n) for n in f.names()]",
        "jax torch tensorflow onnx numpy",
    ),
    "the parent of lanes": ("import opscope.harness.lanes.lane, opscope.harness.record.store", "numpy jax jaxlib"),
    "versions of a run": ("from opscope.harness.record.origin import origin; origin([], {})", "jax"),
    "inputs": ("import opscope.harness.prepare.inputs", "jax jaxlib xdsl"),
    "the judge of an elementwise op, a composite and a function": (
        "import numpy as np; from opscope import judge; x = np.linspace(-4, 4, 64, dtype='f4'); "
        "[judge(w, x, x, golden=x).worst for w in ('tanh', 'gelu', 'softmax', np.tanh)]; "
        "judge('tanh', x, 1.1 * x).hypothesis",
        "jax jaxlib xdsl scipy torch",
    ),
    "a sweep of all inputs": (
        "from opscope.harness.run import lanes_ahead; from opscope.harness.ulp import sweep",
        "opscope.harness.prepare.exporting opscope.harness.prepare.make_folder",
    ),
}
"""What is run, in this order and in one process -> packages that are not imported after it."""

ALL = """
import json, sys
for case, (statement, packages) in json.loads(sys.argv[1]).items():
    exec(statement, {})
    found = sorted(set(packages.split()) & set(sys.modules))
    assert not found, f"{case}: {found}"
print("all")
"""


def loaded(cases: dict[str, tuple[str, str]]) -> subprocess.CompletedProcess[str]:
    """Runs `cases` one after another: what each alone would import, is there after it as well."""
    command = [sys.executable, "-c", ALL, json.dumps(cases)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_no_heavy_package_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESULTS", f"sqlite:///{tmp_path}/d.sqlite")
    root.main(["db", "upgrade", "--db", os.environ["RESULTS"]], standalone_mode=False)
    done = loaded(LIGHT)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["all"]), done.stderr
    broken = loaded({"a query": (f"{QUERY}; import sqlalchemy", LIGHT["a query"][1])})
    assert broken.stderr.splitlines()[-1] == "AssertionError: a query: ['sqlalchemy']"
