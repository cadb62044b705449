from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from opscope.base import terminal
from opscope.base.live import progress, status_line
from opscope.base.live.status_line import Estimate, StatusLine, duration

TICK = 0.02
ROWS, COLUMNS = 14, 80


class Pty:
    """A terminal of 14 rows and 80 columns, and what was written to it."""

    def __init__(self) -> None:
        import fcntl
        import struct
        import termios

        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.stream = os.fdopen(slave, "w")
        self.text = ""

    def read_until(self, words: str) -> str:
        """Everything that was written, once `words` were."""
        return self.read_while(lambda: words not in self.text)

    def read_while(self, lacks: Callable[[], bool]) -> str:
        """Everything that was written, once it lacks nothing."""
        until = time.monotonic() + 60
        while lacks() and time.monotonic() < until:
            if select.select([self.master], [], [], 0.1)[0]:
                self.text += os.read(self.master, 65536).decode()
        assert not lacks(), repr(self.text)
        return self.text

    def close(self) -> None:
        self.stream.close()
        os.close(self.master)


@pytest.fixture
def screen() -> Iterator[Pty]:
    with closing(Pty()) as made:
        yield made


def test_line_ticks_on_one_row_while_nothing_returns(screen: Pty) -> None:
    begun = time.monotonic()
    with closing(StatusLine(lambda: f"at {time.monotonic() - begun:.2f} s", terminal=screen.stream, second=TICK)):
        screen.read_while(lambda: len(set(screen.text.split("\r"))) < 6)
    text = screen.read_until("\x1b[K\r\x1b[K")
    assert "\n" not in text
    assert text.endswith("\r\x1b[K"), "the row is empty again"


def test_line_is_cut_to_the_width(screen: Pty) -> None:
    with closing(StatusLine(lambda: "wörter " * 40, terminal=screen.stream, second=TICK)):
        screen.read_until("...")
    drawn = screen.text.split("\r")[1].removesuffix("\x1b[K")
    assert len(drawn) == COLUMNS - 1


def test_line_escapes_what_acts_on_a_terminal(screen: Pty) -> None:
    with closing(StatusLine(lambda: "op \x1b[2J\nend", terminal=screen.stream, second=TICK)):
        text = screen.read_until("end")
    assert "\\u001b[2J\\nend" in text


def test_line_makes_room_for_output_and_comes_back(screen: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", screen.stream)
    with terminal.visible_output(), closing(StatusLine(lambda: "busy", terminal=screen.stream, second=TICK)):
        screen.read_until("busy")
        print("a line", flush=True)
        screen.read_until("a line\r\n")
        after = len(screen.text)
        screen.read_until("a line\r\n\rbusy")
        terminal.console().print("drawn by rich")
        screen.read_until("drawn by rich\r\n\rbusy")
    assert "\r\x1b[Ka line\r\n" in screen.text, "the line had left"
    assert "\r\x1b[Kdrawn by rich\r\n" in screen.text[after:]


def test_line_waits_while_somebody_is_in_the_middle_of_one(screen: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", screen.stream)
    monkeypatch.setattr(status_line, "PAUSE", 0.0)
    with terminal.visible_output(), closing(StatusLine(lambda: "busy", terminal=screen.stream, second=TICK)):
        screen.read_until("busy")
        print("password: ", end="", flush=True)
        time.sleep(5 * TICK)
    assert screen.read_until("password: ").endswith("password: ")


def test_line_stays_away_once_output_goes_to_a_pager(screen: Pty) -> None:
    read, write = os.pipe()
    with (
        os.fdopen(read),
        os.fdopen(write, "w") as pager,
        closing(StatusLine(lambda: "busy", terminal=screen.stream, second=TICK)),
    ):
        screen.read_until("busy")
        terminal.console(file=pager).print("rows")
        time.sleep(5 * TICK)
    assert screen.read_until("\r\x1b[K").endswith("\r\x1b[K")
    assert not screen.text.removesuffix("\r\x1b[K").endswith("\r\x1b[K"), "nothing was drawn after it left"


def test_without_a_terminal_a_line_a_minute() -> None:
    lines: list[str] = []
    begun = time.monotonic()
    line = StatusLine(lambda: "busy", write_line=lines.append, minute=5 * TICK)
    assert not lines or time.monotonic() - begun >= 5 * TICK
    while len(lines) < 2 and time.monotonic() < begun + 10:
        time.sleep(TICK)
    line.close()
    assert 2 <= len(lines) <= (time.monotonic() - begun) / (5 * TICK)
    assert set(lines) == {"busy"}


def test_terminal_that_is_gone_ends_the_line_alone(screen: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> int:
        raise OSError(5, "Input/output error")

    line = StatusLine(lambda: "busy", terminal=screen.stream, second=TICK)
    monkeypatch.setattr(os, "write", gone)
    time.sleep(3 * TICK)
    line.close()
    line.close()


def test_command_says_its_steps_after_a_while(screen: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen.stream)
    monkeypatch.delenv("OPSCOPE_PLAIN", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    progress.step("nobody asked")
    with progress.command("opscope demo", after=2 * TICK, second=TICK):
        with progress.command("opscope inner", after=0, second=TICK):
            screen.read_until("opscope demo · 0 s")
        for _ in progress.each(range(5), "night", 5):
            time.sleep(2 * TICK)
        assert "opscope demo · night 5/5 · 0 s" in screen.read_until("night 5/5")
    assert "nobody asked" not in screen.text
    assert "inner" not in screen.text
    assert "ETA 0 s" in screen.text


def test_quick_command_draws_nothing(screen: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen.stream)
    with progress.command("opscope show"):
        pass
    assert not select.select([screen.master], [], [], 0.05)[0]


def test_plain_mode_draws_nothing(screen: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen.stream)
    monkeypatch.setenv("OPSCOPE_PLAIN", "1")
    with progress.command("opscope show", after=0, second=TICK, minute=2 * TICK):
        text = screen.read_until("opscope show · 0 s\r\n")
    assert "\x1b" not in text


def test_estimate_and_durations() -> None:
    estimate = Estimate()
    assert estimate.text(10) == ""
    estimate._moments = [(time.monotonic() - 10, 0), (time.monotonic() - 5, 5), (time.monotonic(), 10)]
    assert estimate.text(370) == "ETA 6 min"
    assert estimate.text(10) == ""
    assert [duration(s) for s in (0.4, 23, 99, 100, 360, 7800)] == [
        "0 s",
        "23 s",
        "99 s",
        "2 min",
        "6 min",
        "2 h 10 min",
    ]
