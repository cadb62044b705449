"""Folders below TMPDIR: removed at their end, also if their process was killed, and never while one holds them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from opscope.base import temporary_folder
from opscope.base.places import HOME
from opscope.base.temporary_folder import PREFIX, TemporaryFolder

HOLDER = """
from opscope.base.temporary_folder import TemporaryFolder
folder = TemporaryFolder("test")
print(folder.name, flush=True)
input()
"""
ROOMS = ("opscope", "harness", "compiler", "simulator", "models", "reports", "dashboards")
AT_HAND = {
    "opscope/base/temporary_folder.py": "the one place",
    "opscope/base/shared_block.py": "a file whose name goes at once",
    "compiler/target/regenerate.py": "run by hand",
    "dashboards/backup.py": "in the home folder of the dashboards",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty TMPDIR in which nobody has looked yet."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(temporary_folder, "_swept", set())
    return tmp_path


def test_a_folder_ends_with_its_context(place: Path) -> None:
    with TemporaryFolder("test") as name:
        (Path(name) / "sub").mkdir()
        assert Path(name).parent == place
        assert Path(name).name.startswith(f"{PREFIX}test-")
    assert not list(place.iterdir())


def test_a_folder_ends_once_nobody_has_it(place: Path) -> None:
    folder = TemporaryFolder("test")
    assert len(list(place.iterdir())) == 1
    del folder
    assert not list(place.iterdir())


def test_the_folder_of_a_killed_process_is_removed_by_the_next_that_makes_one(place: Path) -> None:
    mine = place / "opscope-mine"  # not one of these folders
    mine.mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
    )
    with holder:
        assert holder.stdout is not None
        left = Path(holder.stdout.readline().strip())
        with TemporaryFolder("test"):
            assert left.is_dir(), "a folder that a living process holds was removed"
        holder.send_signal(signal.SIGKILL)
    assert left.is_dir()
    temporary_folder._swept.clear()  # another process
    with TemporaryFolder("test"):
        assert not left.exists()
    assert list(place.iterdir()) == [mine]


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX may be in this process
def test_a_fork_leaves_the_folder_to_its_maker(place: Path) -> None:
    folder = TemporaryFolder("test")
    child = os.fork()
    if not child:
        folder.cleanup()
        os._exit(0)
    os.waitpid(child, 0)
    assert Path(folder.name).is_dir()
    folder.cleanup()
    assert not list(place.iterdir())


def test_nothing_else_makes_folders_in_tmpdir() -> None:
    """A folder that the standard library makes stays for good where its process is killed."""
    made = re.compile(r"tempfile\.(?:mkdtemp|TemporaryDirectory|mkstemp|NamedTemporaryFile)\((?![^\n]*\bdir=)")
    makers = [
        name
        for room in ROOMS
        for path in sorted((HOME / room).rglob("*.py"))
        if "tests" not in (parts := path.relative_to(HOME)).parts
        if made.search(path.read_text(encoding="utf-8")) and (name := str(parts)) not in AT_HAND
    ]
    assert makers == []
