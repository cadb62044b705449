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
