"""Git leaves a results folder alone, whoever makes it, in a project that has never heard of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from opscope.base import atomic_write
from opscope.base.results_folder import make_folder, results_folder
from opscope.harness.record import run_folders, store
from opscope.reports.database.database import open_database
from opscope.reports.database.files import default_url


def untracked(repository: Path) -> str:
    """What `git status` has to say."""
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout


def write_a_run(root: Path) -> None:
    store.write_whole(run_folders.runs_root(root) / "a-run" / "run.json", "{}")


def publish_to_the_default_database(root: Path) -> None:
    with open_database(default_url(root)):
        pass


def write_a_night(root: Path) -> None:
    atomic_write.write_whole(results_folder(root) / "nights" / "1" / "night.json", "{}")


@pytest.mark.parametrize("use", [write_a_run, publish_to_the_default_database, write_a_night])
def test_git_sees_nothing_of_it(tmp_path: Path, use: Callable[[Path], None]) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    use(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name != ".git"] == [".opscope"]
    assert untracked(tmp_path) == ""
    (tmp_path / "source").touch()
    assert untracked(tmp_path) == "?? source\n"


def test_what_the_user_says_there_stays(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / ".opscope" / "runs")
    (folder.parent / ".gitignore").write_text("runs\n")
    make_folder(folder / "second")
    assert (folder.parent / ".gitignore").read_text() == "runs\n"


def test_other_folders_get_none(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "b"]
