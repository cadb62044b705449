"""No test reaches what belongs to whoever runs the tests: tried in a checkout with runs, a home folder and settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci.tests import tries_at_users_files

pytestmark = pytest.mark.slow

CONFTEST = Path(__file__).resolve().parents[2] / "conftest.py"


def outcomes(folder: Path, *words: str) -> dict[str, set[str]]:
    """Outcome -> the tries that have it; a try that is caught at its end has two."""
    checkout, home, cache = (folder / name for name in ("checkout", "home", "cache"))
    for path in (checkout / ".opscope", home / ".cache" / "opscope", cache):
        path.mkdir(parents=True)
    (checkout / ".opscope" / "run.json").touch()
    shutil.copy(tries_at_users_files.__file__, checkout / "test_tries.py")
    shutil.copy(CONFTEST, checkout)
    settings = dict.fromkeys(("OPSCOPE_BACKEND", "OPSCOPE_PUBLISH", "XDG_RUNTIME_DIR", "GITHUB_JOB"), "the user's")
    settings |= {"HOME": str(home), "OPSCOPE_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    # Without plugins that take long to import.
    flags = [
        word for name in ("randomly", "hypothesispytest", "benchmark", "cacheprovider") for word in ("-p", f"no:{name}")
    ]
    flags += ["-q", "-rA", "--tb=no"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *flags, *words],
        cwd=checkout,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    names_of: dict[str, set[str]] = {}
    for outcome, name in re.findall(
        r"^(PASSED|FAILED|ERROR) \S+::test_(?:a_try\[)?(.+?)\]?(?: - .*)?$", done.stdout, re.M
    ):
        names_of.setdefault(outcome, set()).add(name)
    assert names_of, done.stdout + done.stderr
    return names_of


@pytest.mark.parametrize("words", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_every_try_fails(tmp_path: Path, words: tuple[str, ...]) -> None:
    left = {"leave a file behind"}
    caught = set(tries_at_users_files.TRIES) - left
    assert outcomes(tmp_path, *words) == {"PASSED": left | {"what_a_test_sees"}, "FAILED": caught, "ERROR": left}


def test_rewritten_assertions_are_stored_whatever_the_shell_says(tmp_path: Path) -> None:
    """Or each worker rewrites those of all tests again."""
    for flags, stored in (((), True), (("--noconftest",), False)):
        outcomes(tmp_path / str(stored), *flags)
        assert any((tmp_path / str(stored) / "checkout").glob("__pycache__/test_tries*-pytest-*.pyc")) is stored


def test_every_try_succeeds_where_nothing_guards(tmp_path: Path) -> None:
    tries = set(tries_at_users_files.TRIES)
    assert outcomes(tmp_path, "--noconftest") == {"PASSED": tries, "FAILED": {"what_a_test_sees"}}


ENDS = """
import atexit, os, pathlib

class Large:
    def __del__(self, touch=os.mknod):
        touch("PLACE/taken-apart")

def test_end():
    global kept
    kept = Large()
    atexit.register(os.mknod, "PLACE/called")

def test_allocator():
    mine = pathlib.Path("/proc/self/environ").read_text()
    assert [name for name in NAMES if f"{name}=" in mine and name not in os.environ] == NAMES
"""


def test_a_worker_calls_what_waits_for_its_end_and_takes_nothing_apart(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """And it alone has an allocator that keeps what is freed."""
    shutil.copy(CONFTEST, tmp_path)
    (keeping,) = (each.KEEPING for each in pytestconfig.pluginmanager.get_plugins() if hasattr(each, "KEEPING"))
    (tmp_path / "test_end.py").write_text(ENDS.replace("PLACE", str(tmp_path)).replace("NAMES", repr([*keeping])))
    words = [sys.executable, "-P", "-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(tmp_path / name).exists() for name in ("called", "taken-apart")] == [True, False]
