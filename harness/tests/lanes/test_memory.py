"""Turns: a large op runs alone, ordinary ones side by side, and none passes a large one that waits."""

from __future__ import annotations

import threading
import time

from opscope.base.machine import machine_memory, memory_limit
from opscope.harness.lanes import memory
from opscope.harness.record.records import OpRow, TensorDesc


def row(elements: int, data_type: str = "f32") -> OpRow:
    desc = TensorDesc(shape=(elements,), data_type=data_type)
    return OpRow(op_id="0" * 16, op_name="stablehlo.abs", module="m", inputs=(desc,), outputs=(desc,), op_params={})


def test_estimates() -> None:
    assert memory.estimate(row(10)) == 8 * 2 * 40
    assert [memory.estimate(row(1, t)) // 16 for t in ("i1", "i4", "bf16", "f8E4M3FN", "i64", "complex<f32>")] == [
        1,
        1,
        2,
        1,
        8,
        8,
    ]
    assert memory_limit(5) == 5
    assert memory_limit(None) == machine_memory() * 3 // 4


def test_a_large_op_runs_alone_and_is_not_passed() -> None:
    events: list[str] = []
    inside, go_on = threading.Event(), threading.Event()

    def small(name: str, wait: bool = False) -> None:
        with memory.turn(row(1), 1000):
            events.append(f"{name} begins")
            if wait:
                inside.set()
                go_on.wait(10)
            events.append(f"{name} ends")

    def large() -> None:
        with memory.turn(row(1000), 1000):
            events.append("large begins")
            time.sleep(0.05)
            events.append("large ends")

    first = threading.Thread(target=small, args=("first", True))
    first.start()
    assert inside.wait(10)
    small("beside")  # another ordinary op does not wait for the first
    second = threading.Thread(target=large)
    second.start()
    time.sleep(0.05)
    third = threading.Thread(target=small, args=("third",))
    third.start()
    time.sleep(0.05)
    assert events == ["first begins", "beside begins", "beside ends"]
    go_on.set()
    for thread in (first, second, third):
        thread.join(10)
    assert events[3:] == ["first ends", "large begins", "large ends", "third begins", "third ends"]
