"""Users of a container: no entry in passwd, no HOME, a HOME of somebody else. A line, and never a traceback."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from opscope.base.tests.captured import captured
from opscope.harness.tests.acceptance.conftest import MODEL, Done, Place

pytestmark = pytest.mark.slow

USER = "12345"
"""A user that no system knows."""


@pytest.fixture
def stranger(place: Place) -> Iterator[Place]:
    """A folder of a user without a home. The right to read is left to them: the interpreter may be root's own."""
    if not hasattr(os, "geteuid") or os.geteuid() or shutil.which("setpriv") is None:
        pytest.skip("only root may become another user, by setpriv")
    with tempfile.TemporaryDirectory(prefix="opscope-stranger-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o777)  # the folders of tests are for their own user alone
        yield replace(place, folder=Path(folder))


def as_stranger(place: Place, line: str, *words: str, **environment: str) -> Done:
    without = [f"--unset={name}" for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")]
    named = [f"{name}={value}" for name, value in {"OPSCOPE_CACHE_DIR": "", **environment}.items()]
    rights = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    command = [
        "env",
        *without,
        *named,
        "setpriv",
        "--reuid",
        USER,
        "--regid",
        USER,
        "--clear-groups",
        *rights,
        *place.command(line, *words),
    ]
    done = captured(command, cwd=place.folder, env=place.environment, timeout=120)
    return Done(done.returncode, done.stdout, done.stderr)


def test_a_user_without_a_home_folder_is_told_of_the_variable(stranger: Place) -> None:
    line = (
        "cache folder: expected one that this user can read, got a user without a home folder; try OPSCOPE_CACHE_DIR="
    )
    done = as_stranger(stranger, "pytest", "--model", MODEL, "--op-by-op", "--backend", "null")
    assert (done.code, done.err.count("\n")) == (2, 1), done.out + done.err
    assert line in done.err
    done = as_stranger(stranger, "opscope", "clean")
    assert (done.code, done.err.count("\n")) == (2, 1), done.out + done.err
    assert line in done.err
    done = as_stranger(stranger, "opscope", "doctor")
    assert "Traceback" not in done.out + done.err
    assert "disk for the cache" in done.out
    assert "a user without a home folder" in done.out


def test_with_the_variable_all_of_a_run_is_there(stranger: Place) -> None:
    cache = str(stranger.folder / "cache")
    run = ("--model", MODEL, "--op-by-op", "--backend", "null")
    done = as_stranger(stranger, "pytest", *run, "-p", "no:cacheprovider", OPSCOPE_CACHE_DIR=cache)
    assert (done.code, done.err) == (0, ""), done.out + done.err
    assert (stranger.runs()[-1] / "report.html").is_file()
    assert "expected" not in done.out


def test_a_cache_that_root_has_filled_is_read_and_not_written(stranger: Place) -> None:
    cache = stranger.folder / "cache"
    run = ("--model", MODEL, "--op-by-op", "--backend", "null", "--no-report", "-p", "no:cacheprovider")
    done = as_stranger(stranger, "pytest", *run, OPSCOPE_CACHE_DIR=str(cache))
    assert (done.code, done.err) == (0, ""), done.out + done.err
    folders = [path for path in cache.rglob("*") if path.is_dir()]
    assert all(path.stat().st_mode & 0o055 == 0o055 for path in folders), "anybody may share it"
    for path in folders:
        os.chown(path, 0, 0)
    done = as_stranger(stranger, "pytest", *run, OPSCOPE_CACHE_DIR=str(cache))
    assert (done.code, done.err) == (0, ""), done.out + done.err
    assert f"{cache} is read-only: nothing is kept in it" in " ".join(done.out.split())
    done = as_stranger(stranger, "opscope", "doctor", OPSCOPE_CACHE_DIR=str(cache))
    assert f"{cache}, which is not writable" in " ".join(done.out.split())


def test_a_cache_folder_that_cannot_be_looked_into_is_a_line_and_a_row(place: Place) -> None:
    """A name that is too long stands here for a folder of another user, which root can read."""
    folder = str(place.folder / ("n" * 300))
    done = place.pytest(OPSCOPE_CACHE_DIR=folder)
    assert (done.code, done.err.count("\n")) == (2, 1), done.out + done.err
    assert f"got {folder} (File name too long)" in done.err
    done = place.run("opscope", "doctor", OPSCOPE_CACHE_DIR=folder)
    assert "(File name too long)" in " ".join(done.out.split())
