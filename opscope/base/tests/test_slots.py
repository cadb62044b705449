"""Slots: as many as there are are held, whoever is killed leaves none taken, and turns end."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator

import pytest

from opscope.base import slots as module
from opscope.base.slots import Slots, SlotServer, slots_of, take_one


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


def holder(server: SlotServer) -> int:
    """A process that has a slot until it is killed; returns once it has."""
    reading, writing = os.pipe()

    def work() -> None:
        slots = Slots(server.address)
        slots.take()
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


@pytest.fixture
def two() -> Iterator[SlotServer]:
    with SlotServer(2) as server:
        yield server


def test_there_are_as_many_as_there_are_and_one_that_is_killed_leaves_its_own(two: SlotServer) -> None:
    first, second = holder(two), holder(two)
    slots, thread = Slots(two.address), Slots(two)
    for asking in (slots, thread):
        with pytest.raises(GaveUp):
            asking.take(give_up_after(0.01))
        assert not asking.holds
    end(first)
    slots.take(give_up_after(60))
    assert slots.holds
    with pytest.raises(GaveUp):
        thread.take(give_up_after(0.01))
    slots.give()
    thread.take(give_up_after(60))
    end(second)


def test_who_gave_up_is_not_in_the_way_of_others_and_may_ask_again(two: SlotServer) -> None:
    own, slots = [Slots(two), Slots(two)], Slots(two.address)
    for each in own:
        each.take()
    for _ in range(3):
        with pytest.raises(GaveUp):
            slots.take(give_up_after(0.01))
    own[0].give()
    slots.take(give_up_after(60))
    assert not slots.hand_on(), "no answer is left from before"


def test_a_fork_has_no_slot_of_its_parents() -> None:
    with SlotServer(1) as server:
        slots = slots_of(*server.address)
        slots.take()

        def work() -> None:
            assert not slots.holds
            with pytest.raises(GaveUp):
                slots.take(give_up_after(0.01))

        assert os.waitpid(in_fork(work), 0)[1] == 0
        slots.give()
        assert os.waitpid(in_fork(slots.take), 0)[1] == 0


@pytest.mark.parametrize("here", [True, False])
def test_a_slot_is_handed_on_when_its_turn_is_over_and_somebody_waits(
    here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TURN", 0.02)
    with SlotServer(1) as server:
        slots = Slots(server if here else server.address)
        slots.take()
        time.sleep(0.02)
        assert not slots.hand_on(), "nobody waits"
        waiting = in_fork(lambda: Slots(server.address).take(give_up_after(60)))
        until = time.monotonic() + 60
        while not slots.hand_on():
            assert time.monotonic() < until
            time.sleep(0.001)
        assert not slots.holds
        assert os.waitpid(waiting, 0)[1] == 0, "the other had it"
        slots.take(give_up_after(60))
        assert not slots.hand_on(), "its turn has just begun"


def test_slots_are_granted_in_the_order_in_which_they_are_asked_for() -> None:
    with SlotServer(1) as server:
        first, order = Slots(server), list[int]()
        first.take()

        def work(number: int) -> None:
            own = Slots(server if number % 2 else server.address)
            own.take()
            order.append(number)
            own.give()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for number, thread in enumerate(threads):
            thread.start()
            until = time.monotonic() + 60
            while len(server._waiting) <= number:
                assert time.monotonic() < until
                time.sleep(0.001)
        first.give()
        for thread in threads:
            thread.join(60)
    assert order == sorted(order)


def test_where_nobody_grants_any_more_all_are_free(two: SlotServer) -> None:
    held = [Slots(two), Slots(two)]
    for each in held:
        each.take()
    waiting = in_fork(lambda: take_one(two.address))
    time.sleep(0.05)
    two.close()
    assert os.waitpid(waiting, 0)[1] == 0
    Slots(two.address).take(give_up_after(60))
    two.close()
