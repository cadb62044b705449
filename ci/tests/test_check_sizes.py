"""The check of sizes says what each room costs and what a change adds; no file of this project is too long."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ci.check_sizes import MOST, changed_since, lines_of, main, table


def write(root: Path, name: str, lines: int) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x = 1\n" * lines)


def test_a_file_over_the_limit_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "harness/long.py", 801)
    write(tmp_path, "harness/short.py", 800)
    assert main(tmp_path) == 1
    assert "harness/long.py: expected at most 800 lines, got 801" in capsys.readouterr().out


def test_each_room_says_what_a_change_adds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("harness/a.py", "harness/tests/test_a.py", "compiler/b.py"):
        write(tmp_path, name, 10)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    write(tmp_path, "harness/a.py", 15)
    write(tmp_path, "harness/tests/test_a.py", 7)
    assert main(tmp_path) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["lines", "product", "tests"],
        ["harness", "15", "(+5)", "7", "(-3)"],
        ["compiler", "10", "0"],
        ["all", "25", "(+5)", "7", "(-3)"],
    ]
    assert changed_since(tmp_path, "no-such-revision") is None
    assert "all" in table(changed_since(tmp_path, "HEAD") or {}, None)[-1]


def test_this_project_has_no_file_that_is_too_long() -> None:
    lines = lines_of(Path(__file__).resolve().parents[2])
    assert not [path for path, count in lines.items() if count > MOST]
