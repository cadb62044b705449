"""What this machine has."""

from __future__ import annotations

import os

SHARE = 0.75
"""Share of the memory that one child may hold by default."""


def processors() -> int:
    """Processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory_limit(limit: int | None) -> int:
    """Bytes that a child may hold: `limit`, or by default three quarters of the machine's memory."""
    return limit or int(machine_memory() * SHARE)
