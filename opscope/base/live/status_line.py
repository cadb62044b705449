"""One line that says what is being done: drawn again each second on a terminal, else written once a minute.

The line is drawn by a thread, since what takes long is one call that returns late. It is written to a descriptor
of its own, as pytest redirects the terminal while a test runs. Whoever writes to the terminal meanwhile calls
`make_room`, as the streams and consoles of `terminal` do: the line leaves, and comes back below what was written.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import unicodedata
from collections.abc import Callable
from typing import Any

from opscope.base.visible_text import one_line

SECOND = 1.0
"""Time between two drawings on a terminal."""
MINUTE = 60.0
"""Time between two lines where there is no terminal."""
PAUSE = 0.05
"""Seconds without a drawing once somebody wants to write."""
ERASE = b"\r\x1b[K"


class StatusLine:
    """The line, from now until `close`. `text` is called for each drawing, on another thread."""

    def __init__(
        self,
        text: Callable[[], str],
        *,
        terminal: Any = None,
        write_line: Callable[[str], None] | None = None,
        after: float = 0.0,
        second: float = SECOND,
        minute: float = MINUTE,
    ) -> None:
        """With a `terminal` (an open stream), draws there once `after` seconds are over; else calls `write_line`."""
        self._text, self._write_line = text, write_line
        self._terminal = None if terminal is None else os.dup(terminal.fileno())
        self._pause = minute if terminal is None else second
        self._first = max(after, 0.0) if terminal is not None else minute
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._drawn, self._in_a_line, self._quiet_until = False, False, 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw_each_second, name="opscope status line", daemon=True)
        _open.append(self)
        self._thread.start()

    def close(self) -> None:
        """Removes the line from the terminal. May be called twice."""
        self._ended.set()
        if self in _open:
            _open.remove(self)
        if self._owner == os.getpid():
            self._thread.join(1.0)
            with self._lock:
                self._erase()
                if self._terminal is not None:
                    os.close(self._terminal)
                self._terminal = None

    def draw(self) -> None:
        """Draws the line now, or writes it where there is no terminal."""
        text = one_line(self._text())
        if not text or self._ended.is_set():
            return
        if self._terminal is None:
            if self._write_line is not None:
                self._write_line(text)
            return
        with self._lock:
            if self._in_a_line or self._terminal is None or time.monotonic() < self._quiet_until:
                return
            width = _columns(self._terminal) - 1
            shown = text if cells(text) <= width else _cut(text, width - 3) + "..."
            self._drawn = True
            self._write(b"\r" + shown.encode("utf-8", "replace") + b"\x1b[K")

    def make_room(self, text: str, on_terminal: bool = True) -> None:
        """Removes the line, since `text` is about to be written. In the middle of a line it does not come back.

        Nor does it once output goes elsewhere (`on_terminal` false), as there may be a pager that has the terminal.
        """
        if not text or self._owner != os.getpid():  # a fork has a copy of this object and no thread
            return
        with self._lock:
            self._erase()
            redrawn = text.startswith("\r")  # a line that its writer draws again as a whole
            self._in_a_line = not on_terminal or not (redrawn or text.endswith("\n"))
            self._quiet_until = time.monotonic() + PAUSE

    def _erase(self) -> None:
        if self._drawn and self._terminal is not None:
            self._write(ERASE)
        self._drawn = False

    def _write(self, data: bytes) -> None:
        """Writes to the terminal, which may be gone: that ends the line, and nothing else."""
        assert self._terminal is not None
        try:
            os.write(self._terminal, data)
        except OSError:
            self._ended.set()

    def _draw_each_second(self) -> None:
        pause = self._first or 0.01
        while not self._ended.wait(pause):
            with contextlib.suppress(ValueError, RuntimeError):  # what the text is made of may change meanwhile
                self.draw()
            pause = self._pause


_open: list[StatusLine] = []


def make_room(text: str, on_terminal: bool = True) -> None:
    """Has every line of this process leave the terminal, on which `text` is about to be written."""
    for line in tuple(_open):
        line.make_room(text, on_terminal)


def cells(text: str) -> int:
    """Columns of a text on a terminal. Our own, as rich is not there yet while what we need is being installed."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _cut(text: str, columns: int) -> str:
    while cells(text) > columns:
        text = text[:-1]
    return text


def _columns(terminal: int) -> int:
    try:
        return max(20, os.get_terminal_size(terminal).columns or 80)
    except OSError:
        return 80


def duration(seconds: float) -> str:
    """A time in the words of a line: `23 s`, `6 min`, `2 h 10 min`."""
    whole = max(0, round(seconds))
    if whole < 100:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


class Estimate:
    """When a count will reach its total, by how fast it grew of late."""

    LATELY = 100
    """Number of steps that say how fast."""
    LEAST = 3
    """Fewest steps that say anything."""

    def __init__(self) -> None:
        self._moments: list[tuple[float, float]] = []

    def count(self, done: float) -> None:
        """Notes that the count is `done` now."""
        self._moments.append((time.monotonic(), done))
        del self._moments[: -self.LATELY]

    def text(self, total: float) -> str:
        """`ETA 6 min`; empty as long as nobody can say."""
        moments = self._moments
        if len(moments) < self.LEAST:
            return ""
        (begun, first), (_, last) = moments[0], moments[-1]
        now = time.monotonic()
        if last <= first or last >= total:
            return ""
        return f"ETA {duration((total - last) * (now - begun) / (last - first))}"
