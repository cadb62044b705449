"""What a process and its children hold: resident bytes and threads; from /proc where there is one, else by psutil."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def usage(pid: int) -> tuple[int, int]:
    """(resident bytes, threads) of `pid` and all its descendants; what has ended counts as nothing."""
    if not (_PROC / "self" / "statm").is_file():
        return _usage_elsewhere(pid)
    resident = threads = 0
    waiting = [pid]
    while waiting:
        process = _PROC / str(waiting.pop())
        try:
            resident += int((process / "statm").read_text().split()[1]) * _PAGE
            tasks = list((process / "task").iterdir())
            threads += len(tasks)
            for task in tasks:
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue  # ended between two reads
    return resident, threads


def descendants(pid: int) -> list[int]:
    """The processes below `pid` that can still be found, whatever group or session they made for themselves."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        try:
            tasks = list((_PROC / str(waiting.pop()) / "task").iterdir())
            children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:
            continue  # ended between two reads, or there is no /proc
        found += children
        waiting += children
    return found


def stopped(pid: int) -> bool:
    """Whether a process stands still at a signal (SIGSTOP, a debugger); False where that cannot be told."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    except (OSError, IndexError):
        return False


def _usage_elsewhere(pid: int) -> tuple[int, int]:
    import psutil

    resident = threads = 0
    try:
        process = psutil.Process(pid)
        tree = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0, 0
    for member in tree:
        try:
            resident += member.memory_info().rss
            threads += member.num_threads()
        except psutil.NoSuchProcess:
            continue  # ended between two reads
    return resident, threads
