"""A fork delivers what this process would; one that dies leaves the work to this process."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from opscope.base import damage
from opscope.harness.tests import run_folder
from opscope.reports import end_of_run
from opscope.reports.end_of_run import Targets, WaitingFork

pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # tests before this one may have loaded JAX


@pytest.fixture
def targets(tmp_path: Path) -> Targets:
    run_folder.write(tmp_path / "run")
    return Targets(f"sqlite:///{tmp_path}/forked.sqlite", tmp_path, 60)


@pytest.fixture
def fork(targets: Targets) -> Iterator[WaitingFork]:
    waiting = WaitingFork()
    pid = waiting._pid
    yield waiting
    waiting.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def rows(place: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(place)) as connection:
        return sorted(connection.execute("SELECT op_id, backend, status, error_message FROM op_tests").fetchall())


@pytest.mark.slow
def test_a_fork_delivers_as_the_process_itself_does(targets: Targets, fork: WaitingFork, tmp_path: Path) -> None:
    steps: list[str] = []
    forked = fork.deliver(tmp_path / "run", targets, steps.append)
    assert forked is not None
    assert (steps, forked.problems) == (["report", "database"], [])
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    here = replace(targets, url=f"sqlite:///{tmp_path}/here.sqlite")
    done = end_of_run.deliver(tmp_path / "run", here, None, steps.append)
    assert {**forked.places, "database": here.url} == done.places
    assert (tmp_path / "run" / "report.html").read_text(encoding="utf-8") == page
    assert rows(tmp_path / "forked.sqlite") == rows(tmp_path / "here.sqlite") != []


def test_a_failed_delivery_is_reported_in_one_line(targets: Targets, tmp_path: Path) -> None:
    nowhere = replace(targets, url="sqlite:////proc/nowhere/db.sqlite")
    done = WaitingFork().deliver(tmp_path / "run", nowhere, lambda step: None)
    assert done is not None
    assert list(done.places) == ["report"]
    assert re.fullmatch(r"--publish: expected a writable folder, got .*", done.problems[0])


def test_damage_that_a_fork_sees_is_shown_by_this_process(targets: Targets, fork: WaitingFork, tmp_path: Path) -> None:
    (segment,) = (tmp_path / "run" / "journal").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b"op_id", b"op_ie", 1))
    lines: list[str] = []
    damage.forget()
    damage.show_by(lines.append)
    try:
        assert fork.deliver(tmp_path / "run", targets, lambda step: None) is not None
    finally:
        damage.forget()
    assert [line for line in lines if str(segment) in line]


def test_a_fork_that_was_killed_gives_no_answer(targets: Targets, fork: WaitingFork, tmp_path: Path) -> None:
    os.kill(fork._pid, signal.SIGKILL)
    assert fork.deliver(tmp_path / "run", targets, lambda step: None) is None


def test_a_fork_that_takes_too_long_is_ended(targets: Targets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_of_run, "import_ahead", lambda: signal.pause())
    monkeypatch.setattr(end_of_run, "GRACE", 0.05)
    waiting = WaitingFork()
    assert waiting.deliver(tmp_path / "run", replace(targets, seconds=0.0), lambda step: None) is None
    assert not waiting._pid
