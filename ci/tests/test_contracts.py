"""The import contracts hold, and each of them notices an import that it forbids."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci import check_cycles

pytest.importorskip("importlinter", reason="import-linter comes with the dev extra")

ROOT = Path(__file__).resolve().parents[2]

FORBIDDEN = {
    "base/stray.py": ("import opscope.harness.record.records", "base imports nothing of ours"),
    "models/stray.py": ("import opscope.harness.record.records", "models imports nothing of ours"),
    "compiler/stray.py": ("import opscope.simulator", "compiler imports nothing of ours"),
    "simulator/stray.py": ("import opscope.compiler.options", "simulator imports compiler.target alone"),
    "harness/stray.py": ("import opscope.compiler.api", "harness reaches compiler and simulator through its backends"),
    "reports/stray.py": ("import opscope.harness.lanes.lane", "reports reads records and runs no op"),
    "dashboards/stray.py": (
        "import opscope.reports.database.database",
        "dashboards imports nothing of ours but in its door",
    ),
    "dashboards/inside/stray.py": (
        "import opscope.dashboards.home",
        "what runs inside Superset knows nothing of the project",
    ),
    "compiler/target/stray.py": ("import xdsl.ir", "compiler.target knows no IR"),
    "compiler/buda/balancer/stray.py": ("import xdsl.ir", "the planner and netlists know no IR"),
    "simulator/stray_jax.py": ("import jax", "simulator and reports import neither jax nor xdsl"),
    "simulator/kernels/stray.py": ("import opscope.simulator.host", "the device does not know its host"),
    "harness/record/stray.py": ("import opscope.harness.run.api", "the packages of harness stand on each other"),
    "compiler/target/stray_api.py": ("import opscope.compiler.api", "the packages of compiler stand on each other"),
    "reports/records/stray.py": ("import opscope.reports.pages.html", "the packages of reports stand on each other"),
    "compiler/passes/stray.py": ("import jaxlib.mlir.ir", "jaxlib is imported by its doors alone"),
}
"""A file that must not be -> what it imports, and the contract that says so."""


def lint(root: Path) -> dict[str, bool]:
    """Contract -> whether it was kept."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", root / "pyproject.toml"]
    environment = os.environ | {"PYTHONPATH": str(root), "COLUMNS": "300"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    ends = {" KEPT": True, " BROKEN": False}
    lines = [line.split(" (")[0] for line in done.stdout.splitlines()]
    contracts = {line.removesuffix(end): kept for line in lines for end, kept in ends.items() if line.endswith(end)}
    assert contracts, done.stdout + done.stderr
    return contracts


@pytest.mark.slow
def test_the_contracts_hold_and_each_notices_a_stray_import(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "opscope", tmp_path / "opscope", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert [name for name, kept in lint(tmp_path).items() if not kept] == []
    for name, (text, _) in FORBIDDEN.items():
        (tmp_path / "opscope" / name).write_text(f"{text}\n")
    contracts = lint(tmp_path)
    broken = [name for name, kept in contracts.items() if not kept]
    for file, (_, contract) in FORBIDDEN.items():
        assert [name for name in broken if name.startswith(contract)], (file, broken)
    assert len(broken) == len(contracts)


def test_a_circle_of_imports_is_found_and_so_is_a_name_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_cycles, "NAMED", {("a", "b"): "types"})
    assert check_cycles.problems({"a": {"b"}, "b": {"a"}}) == []
    (circle,) = check_cycles.problems({"a": {"b"}, "b": {"a", "c"}, "c": {"b"}})
    assert circle.startswith(("b -> c -> b: expected no circle", "c -> b -> c: expected no circle"))
    (unused,) = check_cycles.problems({"a": set(), "b": {"a"}})
    assert unused.startswith("a -> b: expected this import, which is named, got none")
