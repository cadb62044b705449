"""What is wrong with stored files: said once in one line, and remembered where the exit code must tell.

Damage in a cache is a miss: `say` is enough, since what was damaged is made again. Damage in a run folder is a loss:
`found` also makes the command end with another exit code than 0 (`harness/cli/main.py`, `harness/run/session.py`).
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

MOST_LINES = 20
"""Lines about run folders that one process shows; the rest is counted."""


class Damaged(ValueError):
    """A stored file is gone, or holds something else than what was written."""

    def __init__(self, where: object, got: str, hint: str = "making it again") -> None:
        super().__init__(f"{where}: expected what was stored, got {got}; try {hint}")
        self.where, self.got = str(where), got

    @property
    def state(self) -> str:
        """What is said of the file: `damaged (no such file)`."""
        return _state(self.got)


def _state(got: str) -> str:
    """A file of another user need not be damaged."""
    return f"{'unreadable' if os.strerror(errno.EACCES).lower() in got.lower() else 'damaged'} ({got})"


class _Register:
    """What this process has said, and which damage it knows."""

    def __init__(self) -> None:
        self.said: set[str] = set()
        self.lines: list[str] = []
        self.show: Callable[[str], None] = _to_stderr


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"opscope: {line}\n")
    sys.stderr.flush()


_register = _Register()


def say(line: str) -> None:
    """Shows a line, unless this process has shown it before."""
    line = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in line)
    if line not in _register.said:
        _register.said.add(line)
        _register.show(line)


def found(where: object, got: str, then: str = "the rest is read") -> None:
    """Reports damage that something was lost by: shows a line that ends with `then`, and counts for `losses`."""
    line = f"{where}: {_state(got)}; {then}"
    if line in _register.lines:
        return
    _register.lines.append(line)
    if len(_register.lines) <= MOST_LINES:
        say(line)
    elif len(_register.lines) == MOST_LINES + 1:
        say("more places are damaged; they are not listed")


def losses() -> int:
    """How many damaged places this process has met by which something was lost."""
    return len(_register.lines)


def show_by(show: Callable[[str], None]) -> None:
    """Makes `show` receive all further lines."""
    _register.show = show


def forget() -> None:
    """Begins anew: nothing said, no damage known, lines to stderr."""
    _register.__init__()
