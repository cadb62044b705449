"""The stages that a child marks in memory: seen by its lane, also when it has ended, and nothing but marks is taken."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from opscope.harness.lanes.stage_marks import Marks, SeenMarks
from opscope.harness.record.stages import Stage

LINK = Stage("a-stage.of_somebody")


@pytest.fixture
def marks() -> Iterator[Marks]:
    """A child's."""
    marks = Marks()
    yield marks
    marks.close()


def test_the_marks_of_a_killed_child_stay() -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        own = Marks()
        own.begin(7)
        for number, stage in enumerate((Stage.COMPILE, LINK)):
            own.enter(stage, 1.5 + number)
        os.write(write, f"{own.place[0]} {own.place[1]}".encode())
        time.sleep(60)
    try:
        place, size = os.read(read, 1000).decode().split()
        seen = SeenMarks()
        seen.of(place, int(size))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read)
        os.close(write)
    assert seen.begun(7) == [(Stage.COMPILE, 1.5), (LINK, 2.5)]
    assert seen.begun(8) == [], "of another op"
    with pytest.raises((OSError, ValueError)):
        seen.of(place, int(size))
    assert seen.begun(7) == []


def test_the_next_op_begins_with_none(marks: Marks) -> None:
    seen = SeenMarks()
    seen.of(*marks.place)
    marks.begin(1)
    marks.enter(Stage.RUN, 1.0)
    marks.begin(2)
    assert (seen.begun(1), seen.begun(2)) == ([], [])


def test_a_fork_of_the_child_marks_nothing(marks: Marks) -> None:
    marks.begin(1)
    if (pid := os.fork()) == 0:  # pragma: no cover - another process
        marks.enter(Stage.RUN, 1.0)
        os._exit(0)
    os.waitpid(pid, 0)
    seen = SeenMarks()
    seen.of(*marks.place)
    assert seen.begun(1) == []


@pytest.mark.parametrize("garbage", [b"\xff" * 64, b"\x01" + b"\0" * 7 + b"\xff\xff\xff\xff" + b"\xee" * 100])
def test_what_a_backend_wrote_there_is_no_stage(marks: Marks, garbage: bytes) -> None:
    marks.begin(1)
    marks.enter(Stage.RUN, 1.0)
    marks._memory[: len(garbage)] = garbage
    seen = SeenMarks()
    seen.of(*marks.place)
    assert seen.begun(1) == []


def test_marks_that_do_not_fit_are_left_out(marks: Marks) -> None:
    marks.begin(1)
    for number in range(5000):
        marks.enter(LINK, float(number))
    seen = SeenMarks()
    seen.of(*marks.place)
    begun = seen.begun(1)
    assert 1000 < len(begun) < 5000
    assert begun[-1] == (LINK, float(len(begun) - 1))
