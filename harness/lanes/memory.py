"""Takes turns for large ops: an op that may need more than half of the memory budget runs alone.

There are two locks in the run folder. Every op holds `body`: ordinary ops shared, a large one exclusively. An op that
waits for `body` holds `gate`, so that later ordinary ops do not overtake a large one. Locks end with their process.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

from opscope.base.machine import memory_limit
from opscope.harness.record.records import OpRow

FACTOR = 8
"""A lane's largest memory as a multiple of the size of an op's inputs and results: it holds float32 images, golden and
result at once (the largest process of Llama-3-8B took 8.0 GiB for an op of 1.05 GB)."""

GATE, BODY = ".memory-gate", ".memory-body"


def estimate(row: OpRow) -> int:
    """Estimates the bytes that a lane takes while it runs an op."""
    return FACTOR * sum(math.prod(desc.shape) * _width(desc.data_type) for desc in (*row.inputs, *row.outputs))


def _width(data_type: str) -> int:
    """Bytes of an element, from the number in its type's name, because pytest's processes do not load NumPy."""
    number = re.search(r"\d+", data_type)
    return max(1, int(number[0]) // 8 if number else 8) * (2 if data_type.startswith("complex") else 1)


@contextlib.contextmanager
def turn(run_dir: Path, row: OpRow, limit: int | None) -> Iterator[None]:
    """Waits for the op's turn and holds it. An op that may take more than half of the budget runs alone."""
    large = estimate(row) > memory_limit(limit) // 2
    with contextlib.ExitStack() as locks:
        with contextlib.ExitStack() as waiting, contextlib.suppress(OSError):  # a file system without locks
            _lock(waiting, run_dir / GATE, fcntl.LOCK_EX)
            _lock(locks, run_dir / BODY, fcntl.LOCK_EX if large else fcntl.LOCK_SH)
        yield


def _lock(stack: contextlib.ExitStack, path: Path, kind: int) -> None:
    """Takes a lock and holds it until `stack` is closed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    fcntl.flock(descriptor, kind)
