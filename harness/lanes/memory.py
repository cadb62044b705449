"""Turns for large ops: one that may take more than half of the memory budget runs while no other op of the run does.

Two locks in the run folder. Every op holds `body`, ordinary ones shared, a large one alone; who waits for `body` holds
`gate`, so that ordinary ops that come later do not pass a large one that waits. Locks end with their process.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

from opscope.harness.record.records import OpRow

FACTOR = 8
"""A lane's largest memory, in sizes of an op's inputs and results: float32 images, golden and result side by side
(the largest process of Llama-3-8B took 8.0 GiB beside an op of 1.05 GB)."""

GATE, BODY = ".memory-gate", ".memory-body"


def machine_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def budget(limit: int | None) -> int:
    """Bytes that an op's process may take: as asked, else three quarters of the machine's."""
    return limit or machine_memory() * 3 // 4


def estimate(row: OpRow) -> int:
    """Bytes that a lane may take while it runs an op."""
    return FACTOR * sum(math.prod(desc.shape) * _width(desc.data_type) for desc in (*row.inputs, *row.outputs))


def _width(data_type: str) -> int:
    """Bytes of an element, from the number in its type's name: pytest's processes load no NumPy to look it up."""
    number = re.search(r"\d+", data_type)
    return max(1, int(number[0]) // 8 if number else 8) * (2 if data_type.startswith("complex") else 1)


@contextlib.contextmanager
def turn(run_dir: Path, row: OpRow, limit: int | None) -> Iterator[None]:
    """While it lasts, an op may run: alone where it may take more than half of the budget."""
    large = estimate(row) > budget(limit) // 2
    with contextlib.ExitStack() as locks:
        with contextlib.ExitStack() as waiting, contextlib.suppress(OSError):  # a file system without locks: no turns
            _lock(waiting, run_dir / GATE, fcntl.LOCK_EX)
            _lock(locks, run_dir / BODY, fcntl.LOCK_EX if large else fcntl.LOCK_SH)
        yield


def _lock(stack: contextlib.ExitStack, path: Path, kind: int) -> None:
    """Takes a lock for as long as `stack` stands."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    fcntl.flock(descriptor, kind)
