"""What a command is at, shown to the user while it takes longer than two seconds: `opscope plan: placing, 7 s`.

Every command has such a line (harness/cli/main.py), without a word of its own. A command that knows its steps says them
by `step`; where no command runs, this does nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from opscope.base.live.status_line import MINUTE, SECOND, Estimate, StatusLine, duration
from opscope.base.terminal import plain
from opscope.base.visible_text import VisibleStream

AFTER = 2.0
"""Seconds after which a command says what it is at."""

T = TypeVar("T")


class _Work:
    """What the command is at."""

    line: StatusLine

    def __init__(self, name: str) -> None:
        self.name, self.step, self.begun = name, "", time.monotonic()
        self.estimate, self.total = Estimate(), 0.0

    def text(self) -> str:
        """The line."""
        time_here = duration(time.monotonic() - self.begun)
        return " · ".join(filter(None, (self.name, self.step, time_here, self.estimate.text(self.total))))


_current: _Work | None = None


@contextmanager
def command(
    name: str,
    *,
    after: float = AFTER,
    second: float = SECOND,
    minute: float = MINUTE,
    write_line: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Shows what the command `name` is at for as long as it runs, by `write_line` (default: on stderr); a command that
    it calls shows nothing."""
    global _current
    if _current is not None:
        yield
        return
    work = _current = _Work(name)
    stream = sys.stderr.stream if isinstance(sys.stderr, VisibleStream) else sys.stderr
    drawn = stream if write_line is None and _is_terminal(stream) and not plain() else None
    write = write_line or _write_line
    work.line = StatusLine(work.text, terminal=drawn, write_line=write, after=after, second=second, minute=minute)
    try:
        yield
    finally:
        work.line.close()
        _current = None


def step(what: str, done: float | None = None, total: float = 0) -> None:
    """Says what the command is at now; with `done` and `total`, how much of it is done."""
    work = _current
    if work is None:
        return
    words = what if done is None else f"{what} {done:g}/{total:g}"
    if done is None or total != work.total:
        work.estimate, work.total = Estimate(), total
    if done is not None:
        work.estimate.count(done)
    if words != work.step:
        work.step, work.begun = words, time.monotonic()


def stop() -> None:
    """Ends the line of a command that stays from now on until it is stopped, as a server does."""
    if _current is not None:
        _current.line.close()


def each(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The items, while the line says which one of `total` is under way."""
    for number, item in enumerate(items):
        step(what, number + 1, total)
        yield item


def _write_line(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty()) and stream.fileno() >= 0
    except (AttributeError, OSError, ValueError):
        return False
