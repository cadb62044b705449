"""Children that die with their parent, however it ends.

`python -P -m opscope.base.children.parent_death PARENT COMMAND...` becomes another program that does (`bound`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from functools import cache

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h: the signal that a process gets when its parent dies. It stays set through execve."""


PR_SET_CHILD_SUBREAPER = 36
"""From linux/prctl.h: orphans among the descendants become children of this process and not of init."""


@cache
def libc() -> ctypes.CDLL:
    """The C library, which is looked up before a fork that may have been made beside other threads."""
    return ctypes.CDLL(None, use_errno=True)


def become_reaper() -> None:
    """Makes daemons that this process and its descendants start its own children, so that they end with it.

    Only Linux can do so; elsewhere a daemon gets lost.
    """
    if sys.platform == "linux":
        libc().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process when its parent ends; exits at once if the parent has already ended.

    Only Linux can do so; elsewhere a child ends when it next reads from its parent.
    """
    if sys.platform == "linux":
        libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(1)


def bound(command: Sequence[str]) -> list[str]:
    """A command that runs `command` (an absolute path and its arguments) as a program that dies with this process."""
    return [sys.executable, "-P", "-m", __name__, str(os.getpid()), *command]


def main(words: Sequence[str]) -> None:
    """Becomes the command, or exits if the parent has already ended."""
    parent, *command = words
    die_with_parent(int(parent))
    # A shell's background ignores Ctrl-C, which a program inherits and could then not be ended by.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
