"""Takes turns for large ops: an op that may need more than half of the memory budget runs alone in its process' lanes.

Turns are granted in the order in which they are asked for, so that later ordinary ops do not overtake a large one.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache

from opscope.base.machine import memory_limit
from opscope.harness.record.records import OpRow

FACTOR = 8
"""A lane's largest memory as a multiple of the size of an op's inputs and results: it holds float32 images, golden and
result at once (the largest process of Llama-3-8B took 8.0 GiB for an op of 1.05 GB)."""
LOOK = 0.05
"""Seconds between two looks whether who waits shall go on waiting."""


def estimate(row: OpRow) -> int:
    """Estimates the bytes that a lane takes while it runs an op."""
    return FACTOR * sum(math.prod(desc.shape) * _width(desc.data_type) for desc in (*row.inputs, *row.outputs))


@lru_cache(maxsize=64)
def _width(data_type: str) -> int:
    """Bytes of an element, from the number in its type's name, because pytest's processes do not load NumPy."""
    number = re.search(r"\d+", data_type)
    return max(1, int(number[0]) // 8 if number else 8) * (2 if data_type.startswith("complex") else 1)


class _Turns:
    """The turns of this process."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: deque[object] = deque()
        self.running = 0
        self.alone = False


_TURNS = _Turns()


@contextlib.contextmanager
def turn(
    row: OpRow, limit: int | None, check: Callable[[], None] = lambda: None, alone: bool = False
) -> Iterator[None]:
    """Waits for the op's turn and holds it; `check` is called meanwhile and may raise. An op that may take more than
    half of the budget runs alone, as one does that asks for it."""
    large, me, turns = alone or estimate(row) > memory_limit(limit) // 2, object(), _TURNS
    with turns.changed:
        turns.waiting.append(me)
        try:
            while turns.waiting[0] is not me or turns.alone or (large and turns.running):
                check()
                turns.changed.wait(LOOK)
        finally:
            turns.waiting.remove(me)
            turns.changed.notify_all()
        turns.running += 1
        turns.alone = large
    try:
        yield
    finally:
        with turns.changed:
            turns.running -= 1
            turns.alone = False
            turns.changed.notify_all()
