"""Tests that reach for the user's files, for `test_users_files.py`: it copies this file into a checkout of its own."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from opscope.harness.cache import export_folder
from opscope.harness.record import run_folders
from opscope.harness.settings.settings import resolve
from opscope.reports.database.files import default_url

CHECKOUT = Path(__file__).parent
CACHE, HOME = CHECKOUT.parent / "cache", CHECKOUT.parent / "home"
RESULTS = CHECKOUT / ".opscope"


def swallow() -> None:
    with contextlib.suppress(Exception):
        (RESULTS / "run.json").read_text()


TRIES = {
    "read a run": lambda: (RESULTS / "run.json").read_text(),
    "read a run by a relative path": lambda: Path(os.path.relpath(RESULTS / "run.json")).read_text(),
    "read a run and ignore all errors": swallow,
    "list the runs": lambda: list(RESULTS.iterdir()),
    "list the runs by a path of bytes": lambda: os.listdir(os.fsencode(RESULTS)),  # noqa: PTH208
    "open the database": lambda: sqlite3.connect(RESULTS / "opscope.sqlite").close(),
    "open the database by its URI": lambda: sqlite3.connect(f"file:{RESULTS}/opscope.sqlite?mode=ro", uri=True).close(),
    "make a run": lambda: (RESULTS / "run").mkdir(),
    "rename a file into the runs": lambda: (CHECKOUT / "conftest.py").rename(RESULTS / "conftest.py"),
    "write into the cache of the settings": lambda: (CACHE / "new").touch(),
    "write into the cache of the home folder": lambda: (HOME / ".cache" / "opscope" / "new").touch(),
    "make the state folder": lambda: (HOME / ".local" / "state" / "opscope").mkdir(parents=True),
    "start a process in the checkout": lambda: subprocess.run(["true"], cwd=CHECKOUT),
    "start a process after going there": lambda: (os.chdir(CHECKOUT), subprocess.run(["true"])),
    "start a process without a home": lambda: subprocess.run(["true"], env={"PATH": os.environ["PATH"]}),
    "start a process with the user's home": lambda: subprocess.run(["true"], env=os.environ | {"HOME": str(HOME)}),
    "leave a file behind": lambda: Path("left").touch(),
}


@pytest.mark.parametrize("name", TRIES)
def test_a_try(name: str) -> None:
    TRIES[name]()


@pytest.fixture(scope="session")
def seen_by_a_fixture() -> str:
    return f"{Path.cwd()} {os.environ}"


def test_what_a_test_sees(seen_by_a_fixture: str, tmp_path: Path) -> None:
    code = "import os; from opscope.reports.database.files import default_url; print(default_url(), os.environ)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    seen_here = f"{os.environ} {default_url()} {run_folders.runs_root()} {export_folder.cache_dir()}"
    for text in (seen_by_a_fixture, child, seen_here, str(resolve({}, tmp_path).values)):
        assert [word for word in (str(RESULTS), str(HOME), str(CACHE), "the user's") if word in text] == []
