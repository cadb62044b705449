"""What pytest's processes and quick commands run loads none of the packages that take a second to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIGHT = {
    "the parent of lanes": ("import opscope.harness.lanes.lane, opscope.harness.record.store", "numpy jax jaxlib"),
    "the judge of an elementwise op, a composite and a function": (
        "import numpy as np; from opscope import judge; x = np.linspace(-4, 4, 64, dtype='f4'); "
        "[judge(w, x, x, golden=x).worst for w in ('tanh', 'gelu', 'softmax', np.tanh)]; "
        "judge('tanh', x, 1.1 * x).hypothesis",
        "jax jaxlib xdsl scipy torch",
    ),
    "inputs": ("import opscope.harness.prepare.inputs", "jax jaxlib xdsl"),
    "versions of a run": ("from opscope.harness.record.origin import origin; origin([], {})", "jax"),
    "frontends that are listed": (
        "from opscope.models import frontends as f; [f.missing(n) for n in f.names()]",
        "jax torch tensorflow onnx numpy",
    ),
    "a query": (
        "from opscope.harness.cli.main import root; root.main(['sql'], standalone_mode=False)",
        "opscope.harness.record.records opscope.wire pydantic sqlalchemy alembic jax numpy xdsl pytest",
    ),
    "a query's rows as JSON": (
        "import subprocess, sys, tempfile; url = f'sqlite:///{tempfile.mkdtemp()}/d.sqlite'; "
        "subprocess.run([sys.executable, '-P', '-m', 'opscope.harness.cli.main', 'db', 'upgrade', '--db', url]); "
        "from opscope.harness.cli.main import root; "
        "root.main(['sql', 'SELECT 1 AS one', '--db', url, '--json'], standalone_mode=False)",
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
    "what prints no JSON": (
        "from opscope.harness.cli.main import root; root.main(['models'], standalone_mode=False); "
        "root.main(['config'], standalone_mode=False)",
        "opscope.wire.answer opscope.wire.config sqlalchemy jax numpy",
    ),
    "a command": (
        "from opscope.harness.cli.main import root; root.main(['config'], standalone_mode=False)",
        "sqlalchemy jax numpy xdsl altair",
    ),
}
"""What is run -> packages that it must not import."""


@pytest.mark.parametrize("case", LIGHT)
def test_no_heavy_package_is_imported(case: str) -> None:
    statement, packages = LIGHT[case]
    code = f"{statement}\nimport sys\nprint(sorted(set({packages.split()}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
