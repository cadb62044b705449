"""Walks and ops share the devices of a cluster: none waits behind the other without end."""

from __future__ import annotations

from opscope.harness.scale.devices import Devices

BOTH = {"a": 1, "b": 2}


def anyone(worker: str) -> bool:
    return True


def test_a_walk_takes_a_device_from_ops_and_gives_it_back() -> None:
    devices = Devices()
    assert devices.for_ops(BOTH) == BOTH
    assert devices.reserve(BOTH, anyone) == "a"
    assert (devices.for_ops(BOTH), devices.walking()) == ({"b": 2}, True)
    assert devices.reserve(BOTH, anyone) == "b"
    assert devices.for_ops(BOTH) == {"b": 1}
    assert devices.reserve(BOTH, anyone) == "b"
    assert (devices.for_ops(BOTH), devices.reserve(BOTH, anyone)) == ({}, None)
    for worker in "abb":
        devices.release(worker)
    assert (devices.for_ops(BOTH), devices.walking()) == (BOTH, False)
    assert devices.reserve(BOTH, lambda worker: worker == "b") == "b"


def test_walks_come_first_but_leave_one_device_to_ops_that_wait() -> None:
    devices = Devices()
    devices.ops_wait(True)
    assert [devices.reserve(BOTH, anyone) for _ in range(3)] == ["a", "b", None]
    devices.ops_wait(False)
    assert devices.reserve(BOTH, anyone) == "b"
    alone = Devices()
    alone.ops_wait(True)
    assert alone.reserve({"a": 1}, anyone) == "a", "where there is no other"


def test_a_walk_by_several_processes_takes_devices_of_its_worker_that_are_free() -> None:
    devices, slots = Devices(), {"a": 4, "b": 2}
    assert devices.reserve(slots, lambda worker: worker == "a") == "a"
    assert devices.more("a", slots, 9) == 3
    assert devices.for_ops(slots) == {"b": 2}
    devices.release("a", 4)
    assert devices.reserve(slots, lambda worker: worker == "b") == "b"
    devices.ops_wait(True)
    assert devices.reserve(slots, lambda worker: worker == "a") == "a"
    assert devices.more("a", {"a": 4, "b": 1}, 9) == 2, "one is left to ops that wait"


def test_no_batch_waits_behind_a_walk() -> None:
    devices = Devices()
    devices.for_ops({"a": 1})
    assert devices.admit("one", "a", 0)
    assert devices.admit("two", "a", 1), "one is ahead"
    assert not devices.admit("three", "a", 2)
    assert devices.reserve({"a": 1}, anyone) == "a"
    assert not devices.clear("a", 1), "the second would wait behind the walk"
    devices.done("one")
    devices.done("one")
    assert devices.clear("a", 1)
    assert not devices.admit("four", "a", 1), "it would wait behind the walk"
    devices.release("a")
    assert devices.admit("four", "a", 1)


def test_a_walk_goes_where_there_is_least_to_do() -> None:
    devices = Devices()
    devices.for_ops({"a": 2, "b": 2})
    assert devices.admit("one", "a", 0)
    assert devices.reserve({"a": 2, "b": 2}, anyone) == "b"
