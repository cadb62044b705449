"""A cgroup for one child, where this process may make one: everything in it ends with one write, daemons included.

It needs cgroup v2 and the right to write in this process's own cgroup: root in a container that mounts it writable, or
a unit that systemd has delegated (`systemd-run --user --scope`). Elsewhere `make` returns None.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

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


def make() -> Cgroup | None:
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
    if sys.platform != "linux":
        return None
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return None
    path = next((line[3:].strip() for line in groups if line.startswith("0::")), "/..")
    mount = next((words for words in mounts if words[words.index("-") + 1] == "cgroup2"), None)
    # Where the path leaves what is mounted, or only a part is mounted (words[3]), the group has no folder here.
    if mount is None or ".." in path.split("/") or mount[3] != "/":
        return None
    folder = Path(mount[4], path.strip("/"))
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
