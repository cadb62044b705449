"""A process and what it has started: memory and threads from /proc (or psutil), its end, and a cgroup for a child.

A cgroup needs cgroup v2 and the right to write in this process's own: root in a container that mounts it writable, or a
unit that systemd has delegated (`systemd-run --user --scope`). Elsewhere `make_cgroup` returns None.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

import itertools
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from opscope.base import machine

_PROC = "/proc"
_ROUNDS = 100
"""How often what is left of a child is searched for: processes that start others while they are killed appear late."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_WHOLE, _SHORT = 1 << 16, 1 << 10
"""Bytes that are read at once of a file of the kernel. It gives less than a page only at the end, the last time that it
gives something."""


def usage(pid: int) -> tuple[int, int]:
    """(resident bytes, threads) of `pid` and all its descendants; processes that have ended do not count.

    Memory that forks share counts in each of them.
    """
    if not _has_proc():
        return _usage_elsewhere(pid)
    resident = threads = 0
    waiting = [pid]
    while waiting:
        process = waiting.pop()
        try:
            resident += int(_read(f"{_PROC}/{process}/statm").split()[1]) * _PAGE
            tasks, children = _tasks(process)
        except OSError:
            continue  # ended between two reads
        threads += tasks
        waiting += children
    return resident, threads


def exact_resident(pid: int) -> int:
    """Resident bytes of `pid` and all its descendants: what forks share counts once, not in each as in `usage`.

    Takes some ms for each of them.
    """
    if not _has_proc():
        return _usage_elsewhere(pid)[0]
    total = 0
    for process in [pid, *descendants(pid)]:
        try:
            rows = dict(line.split()[:2] for line in _read(f"{_PROC}/{process}/smaps_rollup").splitlines()[1:])
            total += int(rows[b"Pss:"]) << 10
        except (OSError, KeyError, ValueError):  # ended between two reads, or a kernel without it
            total += _resident(process)
    return total


def _resident(pid: int) -> int:
    """Resident bytes of one process; 0 if it has ended."""
    try:
        return int(_read(f"{_PROC}/{pid}/statm").split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def descendants(pid: int) -> list[int]:
    """The descendants of `pid` that are still known, including those in their own group or session."""
    if not _has_proc():
        return [member.pid for member in _members_elsewhere(pid)[1:]]
    below: list[int] = []
    waiting = [pid]
    while waiting:
        try:
            _, children = _tasks(waiting.pop())
        except OSError:
            continue  # ended between two reads
        below += children
        waiting += children
    return below


def children_of(pid: int) -> list[int]:
    """The processes whose parent is `pid`, as Linux tells; empty if it has ended."""
    try:
        return _tasks(pid)[1]
    except OSError:
        return []


def threads_of(pid: int) -> int:
    """How many threads a process has, as Linux tells. Raises OSError if it has ended."""
    return _tasks(pid)[0]


def kill(pid: int) -> None:
    """Kills the process group that `pid` leads and all its descendants, also those in sessions of their own.

    `pid` is stopped first, so that it starts no more. If it is a reaper (`parent_death.become_reaper`), each daemon
    whose parent is killed becomes its child and is seen in the next round.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        strays = set(descendants(pid)) - killed
        if not strays:
            break
        _kill_each(strays)
        killed |= strays
    kill_group(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_marked(variable: str) -> None:
    """Kills every process that began with this variable in its environment: what a dead child has left behind."""
    word = f"{variable}=".encode()
    for _ in range(_ROUNDS):
        marked = _marked(word)
        if not marked:
            return
        _kill_each(marked)


def _marked(word: bytes) -> set[int]:
    """The processes whose environment, as it was when they began, has an entry that starts with `word`."""
    marked: set[int] = set()
    if not _has_proc():
        return marked
    with os.scandir(_PROC) as entries:
        names = [entry.name for entry in entries if entry.name.isdecimal() and int(entry.name) != os.getpid()]
    for name in names:
        try:
            environment = _read(f"{_PROC}/{name}/environ")  # empty for a zombie
        except OSError:
            continue  # ended, or another user's
        if environment.startswith(word) or b"\0" + word in environment:
            marked.add(int(name))
    return marked


def _kill_each(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def kill_group(pid: int) -> None:
    """Kills whatever is left of the process group that `pid` leads or has led."""
    with contextlib.suppress(ProcessLookupError):  # all of it has ended
        os.killpg(pid, signal.SIGKILL)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped (SIGSTOP, a debugger). False if that is unknown."""
    return _state(pid) in (b"T", b"t")


def wake(pid: int) -> None:
    """Has a process go on that somebody has stopped."""
    if pid and is_stopped(pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def parent_of(pid: int) -> int:
    """The number of the parent of a process; 0 if it has ended, or that is unknown."""
    try:
        return int(_read(f"{_PROC}/{pid}/stat").rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def is_zombie(pid: int) -> bool:
    """Whether a process has ended, although its parent has not asked how. False if that is unknown."""
    return _state(pid) in (b"Z", b"X")


def _state(pid: int) -> bytes:
    """The letter of a process's state; empty if it is unknown."""
    try:
        return _read(f"{_PROC}/{pid}/stat").rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return b""


def _has_proc() -> bool:
    return os.access(f"{_PROC}/self/statm", os.R_OK)


def _tasks(pid: int) -> tuple[int, list[int]]:
    """The number of a process's threads, and its children. Raises OSError if it has ended."""
    folder = f"{_PROC}/{pid}/task"
    with os.scandir(folder) as entries:
        threads = [entry.name for entry in entries]
    children: list[int] = []
    for thread in threads:
        with contextlib.suppress(OSError):  # it has ended since, and its children are another thread's
            children += map(int, _read(f"{folder}/{thread}/children").split())
    return len(threads), children


# Called after every op. Without the objects of pathlib and text files it takes a third of the time.
def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = part = os.read(descriptor, _WHOLE)
        while len(part) > _SHORT:
            content += (part := os.read(descriptor, _WHOLE))
    finally:
        os.close(descriptor)
    return content


def _usage_elsewhere(pid: int) -> tuple[int, int]:
    import psutil

    resident = threads = 0
    for member in _members_elsewhere(pid, _SWEEP):
        try:
            resident += member.memory_info().rss
            threads += member.num_threads()
        except psutil.NoSuchProcess:
            continue  # ended between two reads
    return resident, threads


def _members_elsewhere(pid: int, age: float = 0.0) -> list[psutil.Process]:
    """A process and its descendants, as they were at most `age` seconds ago; empty if it has ended."""
    global _swept
    import psutil

    moment, children = _swept
    if not moment or time.monotonic() - moment >= age:
        children = {}
        for process in psutil.process_iter(["ppid"]):
            children.setdefault(process.info["ppid"], []).append(process)  # type: ignore[attr-defined]
        _swept = time.monotonic(), children
    try:
        members = [psutil.Process(pid)]
    except psutil.NoSuchProcess:
        return []
    for member in members:
        members += children.get(member.pid, [])
    return members


_SWEEP = 0.04
"""Seconds for which one look at all processes serves: without /proc the system has to be asked for every one of them,
and each lane of a run asks 20 times a second."""
_swept: tuple[float, dict[int, list[psutil.Process]]] = (0.0, {})
"""When all processes were looked at (time.monotonic), and the children of each then."""


_PREFIX = "opscope-"
_NUMBERS = itertools.count(1)
_TRIES = 200
"""How often an ended group is tried to be removed, a millisecond apart; a later process removes what is left."""


@dataclass(frozen=True)
class Cgroup:
    """The folder of a cgroup that this process made."""

    folder: Path

    def kill(self) -> None:
        """Ends every process in the group and removes the group, with the groups that its processes had made in it."""
        with contextlib.suppress(OSError):
            (self.folder / "cgroup.kill").write_text("1", encoding="ascii")
        for _ in range(_TRIES):
            with contextlib.suppress(OSError):  # the kernel has not yet buried all of them, or somebody else is faster
                for folder, _inner, _files in os.walk(self.folder, topdown=False):
                    Path(folder).rmdir()
            if not self.folder.exists():
                return
            time.sleep(0.001)


def make_cgroup() -> Cgroup | None:
    """A new cgroup below this process's own, for a child; None if none may be made here."""
    parent = _own_folder(os.getpid())
    if parent is None:
        return None
    group = Cgroup(parent / f"{_prefix()}{os.getpid()}-{next(_NUMBERS)}")
    try:
        group.folder.mkdir()
    except OSError:
        return None
    if not os.access(group.folder / "cgroup.kill", os.W_OK):  # before Linux 5.14, or another user's
        group.folder.rmdir()
        return None
    return group


@lru_cache(maxsize=1)
def _own_folder(_: int) -> Path | None:
    """The folder of this process's cgroup of version 2; None if there is none to write in."""
    _, folders = machine.cgroups()
    if not folders:
        return None
    folder = folders[0]
    if not (os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)):
        return None
    _clear(folder)
    return folder


def _prefix() -> str:
    """How the groups begin whose owners' numbers mean something here: other PID namespaces (containers) may share the
    cgroups of this machine, and their processes have numbers of their own."""
    try:
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        namespace = 0
    return f"{_PREFIX}ns{namespace}-"


def _clear(folder: Path) -> None:
    """Removes the groups of processes that were killed before they could do so."""
    prefix = _prefix()
    with contextlib.suppress(OSError):
        for left in list(folder.glob(f"{prefix}*-*")):
            owner = left.name.removeprefix(prefix).partition("-")[0]
            if owner.isdecimal() and not Path(f"/proc/{owner}").exists():
                Cgroup(left).kill()
