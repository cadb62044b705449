"""An import name from before opscope had one of its own is answered with the new one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", f"import opscope, sys; sys.path.insert(0, {str(folder)!r})\n{code}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_the_new_name_is_said_where_nobody_has_the_old_one(tmp_path: Path) -> None:
    done = run(tmp_path, "from models.registry import model")
    last = done.stderr.splitlines()[-1]
    assert last == "ModuleNotFoundError: No module named 'models'; opscope's own is opscope.models now"


def test_a_project_that_has_the_name_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "harness.py").write_text("MINE = True\n")
    assert run(tmp_path, "import harness; assert harness.MINE").returncode == 0


def test_the_skipped_test_of_an_old_repro_folder_ends_with_the_new_name(tmp_path: Path) -> None:
    test = 'import pytest\n\nreplay = pytest.importorskip("harness.triage.replay", reason="opscope is not installed")\n'
    (tmp_path / "test_repro.py").write_text(test)
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:randomly", "-p", "no:benchmark", "test_repro.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 skipped" in done.stdout
    assert "opscope: No module named 'harness'; opscope's own is opscope.harness now" in done.stdout
