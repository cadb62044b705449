"""`python -m nightly.bound PARENT COMMAND...`: becomes another program that dies with whoever started it.

Linux ends it by SIGKILL, which a run survives: its journal is whole at every moment. Elsewhere it is only started.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h; it stays set through execve."""


def main(words: Sequence[str]) -> None:
    """Does not return: becomes the command, or exits where the parent is gone already."""
    parent, *command = words
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        raise SystemExit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
