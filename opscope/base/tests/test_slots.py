"""Slots: as many processes as there are have one, whoever is killed leaves none taken, and turns end."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from opscope.base.children import slots as module
from opscope.base.children.slots import Slots, slots_of


class GaveUp(Exception):
    """Nobody handed a slot on."""


def give_up_after(seconds: float) -> Callable[[], None]:
    until = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > until:
            raise GaveUp

    return check


def in_fork(work: Callable[[], object]) -> int:
    """Starts a process that does some work."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads of what other tests have loaded
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def holder(path: Path, count: int) -> int:
    """A process that has a slot until it is killed; returns once it has."""
    reading, writing = os.pipe()

    def work() -> None:
        Slots(path, count).take()
        os.write(writing, b"1")
        signal.pause()

    pid = in_fork(work)
    assert os.read(reading, 1) == b"1"
    os.close(reading)
    os.close(writing)
    return pid


def end(pid: int) -> int:
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def test_there_are_as_many_as_there_are_and_one_that_is_killed_leaves_its_own(tmp_path: Path) -> None:
    path = tmp_path / "slots"
    first, second = holder(path, 2), holder(path, 2)
    slots = Slots(path, 2)
    with pytest.raises(GaveUp):
        slots.take(give_up_after(0.01))
    assert not slots.holds
    end(first)
    slots.take(give_up_after(60))
    assert slots.holds
    with pytest.raises(GaveUp):
        Slots.take(_other(path), give_up_after(0.01))
    end(second)


def _other(path: Path) -> Slots:
    """Slots of which another process has one and this one another: nothing is left for a third."""
    other = Slots(path, 2)
    other._try = lambda: False  # type: ignore[method-assign]  # a process is never in its own way
    return other


def test_a_fork_has_no_slot_of_its_parents(tmp_path: Path) -> None:
    slots = slots_of(str(tmp_path / "slots"), 1)
    slots.take()

    def work() -> None:
        assert not slots.holds
        with pytest.raises(GaveUp):
            slots.take(give_up_after(0.01))

    assert os.waitpid(in_fork(work), 0)[1] == 0
    slots.give()
    assert os.waitpid(in_fork(slots.take), 0)[1] == 0


def test_a_slot_is_handed_on_when_its_turn_is_over_and_somebody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TURN", 0.02)
    slots = Slots(tmp_path / "slots", 1)
    slots.take()
    time.sleep(0.02)
    assert not slots.hand_on(), "nobody waits"
    waiting = in_fork(lambda: Slots(tmp_path / "slots", 1).take(give_up_after(60)))
    until = time.monotonic() + 60
    while not slots.hand_on():
        assert time.monotonic() < until
        time.sleep(0.001)
    assert not slots.holds
    assert os.waitpid(waiting, 0)[1] == 0, "the other had it"
    slots.take(give_up_after(60))
    assert not slots.hand_on(), "its turn has just begun"
