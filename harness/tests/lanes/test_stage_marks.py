"""The stages that a child marks in memory: seen by its lane, also when it has ended, and nothing but marks is taken."""

from __future__ import annotations

import subprocess
import sys
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


MARKING = """
import time
from opscope.harness.lanes.stage_marks import Marks
from opscope.harness.record.stages import Stage

marks = Marks()
marks.begin(7)
marks.enter(Stage.COMPILE, 1.5)
marks.enter(Stage("a-stage.of_somebody"), 2.5)
print(*marks.place, flush=True)
time.sleep(60)
"""
FORKING = """
import os
from opscope.harness.lanes.stage_marks import Marks, SeenMarks
from opscope.harness.record.stages import Stage

marks = Marks()
marks.begin(1)
if (pid := os.fork()) == 0:
    marks.enter(Stage.RUN, 1.0)
    os._exit(0)
os.waitpid(pid, 0)
seen = SeenMarks()
seen.of(*marks.place)
print(seen.begun(1))
"""


def test_the_marks_of_a_killed_child_stay() -> None:
    seen = SeenMarks()
    with subprocess.Popen([sys.executable, "-c", MARKING], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        place, size = child.stdout.readline().split()
        seen.of(place, int(size))
        child.kill()
    assert seen.begun(7) == [(Stage.COMPILE, 1.5), (LINK, 2.5)]
    assert seen.begun(8) == [], "of another op"
    with pytest.raises((OSError, ValueError)):
        SeenMarks().of(place, int(size))


def test_the_next_op_begins_with_none(marks: Marks) -> None:
    seen = SeenMarks()
    seen.of(*marks.place)
    marks.begin(1)
    marks.enter(Stage.RUN, 1.0)
    marks.begin(2)
    assert (seen.begun(1), seen.begun(2)) == ([], [])


def test_a_fork_of_the_child_marks_nothing() -> None:
    assert subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True).stdout == "[]\n"


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
