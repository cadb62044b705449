"""Whether processes that a test has seen have ended."""

from __future__ import annotations

import time
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether the process exists and is more than an ended one whose parent has not asked for its end yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second, if it ends in between
        return False


def are_gone(*pids: int, seconds: float = 20) -> bool:
    """Whether the processes end within a time: on a busy machine a signal takes a moment to arrive."""
    until = time.monotonic() + seconds
    while any(map(is_running, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
