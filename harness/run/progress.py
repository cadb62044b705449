"""Shows the progress of a run: bars on a terminal, plain lines elsewhere, nothing with -q.

Nothing is drawn from a thread: pytest redirects the terminal while a test runs, so each display draws only when an
event arrives.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TextIO

from opscope.base import terminal
from opscope.base.visible_text import one_line
from opscope.harness.record.stages import FAILED, Status

Event = Mapping[str, Any]
"""A message from the preparation: `event` (`stage`, `done`, `cached`, ...), `model`, `stage`, `done`, `total`."""


PHASES = {"export": "exported", "split": "split into single ops", "golden": "goldens of {total} ops evaluated",
          "import": "held to its own framework", "whole": "run as one program"}  # fmt: skip
"""The words of a plain line for each phase of the preparation."""


class Progress(Protocol):
    """A display of a run."""

    replaces_letters: bool
    """Whether it replaces pytest's own letter per test."""

    def prepared(self, event: Event) -> None:
        """Shows a step of the preparation."""
        ...

    def begin(self, total: int) -> None:
        """Starts the display of the ops, of which there are `total`."""
        ...

    def ended(self, status: Status, expected: bool) -> None:
        """Shows that an op ended."""
        ...

    def close(self) -> None:
        """Ends the display and restores the terminal. May be called twice."""
        ...


class Quiet:
    """Shows nothing."""

    replaces_letters = False

    def prepared(self, event: Event) -> None:
        """Does nothing."""

    def begin(self, total: int) -> None:
        """Does nothing."""

    def ended(self, status: Status, expected: bool) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


class Lines:
    """One plain line for each finished phase of each model; the ops themselves are pytest's letters."""

    replaces_letters = False

    def __init__(self, write_line: Callable[[str], None]) -> None:
        self._write_line = write_line
        self._since = time.monotonic()

    def prepared(self, event: Event) -> None:
        """Writes a line when a phase is complete."""
        if event.get("event") != "stage" or not event.get("total") or event.get("done") != event.get("total"):
            return
        now = time.monotonic()
        done = PHASES.get(str(event.get("stage")), "{total} steps of {stage}").format(**event)
        self._write_line(f"opscope: {event.get('model', '')}: {done} in {now - self._since:.1f} s")
        self._since = now

    def begin(self, total: int) -> None:
        """Does nothing: pytest prints how many tests there are."""

    def ended(self, status: Status, expected: bool) -> None:
        """Does nothing: pytest writes its letter."""

    def close(self) -> None:
        """Does nothing."""


class Live:
    """Bars on a terminal: one for each phase of each model, then one for the ops with their counts by status."""

    replaces_letters = True

    def __init__(self, file: TextIO, width: int | None = None) -> None:
        self._file, self._width = file, width
        self._bars: Any = None
        self._phases: dict[tuple[str, str], Any] = {}
        self._ops: Any = None
        self._counts: Counter[str] = Counter()

    def _open(self) -> Any:
        """The bars; drawn only on demand."""
        if self._bars is None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            console = terminal.console(file=self._file, force_terminal=True, width=self._width)
            self._bars = Progress(
                TextColumn("{task.description}", markup=False), BarColumn(bar_width=30), MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[note]}", markup=False), console=console, auto_refresh=False, transient=True,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._bars.start()
        return self._bars

    def prepared(self, event: Event) -> None:
        """Moves the bar of the event's phase."""
        if event.get("event") != "stage":
            return
        bars = self._open()
        key = (str(event.get("model", "")), str(event.get("stage", "")))
        if key not in self._phases:
            self._phases[key] = bars.add_task(one_line(f"{key[0]} {key[1]}"), total=None, note="")
        bars.update(self._phases[key], completed=event.get("done", 0), total=event.get("total") or None)
        bars.refresh()

    def begin(self, total: int) -> None:
        """Replaces the bars of the phases by the bar of the ops."""
        self.close()
        self._counts.clear()
        self._ops = self._open().add_task("ops", total=total, note="")
        self._open().refresh()

    def ended(self, status: Status, expected: bool) -> None:
        """Counts the op under its status, as an expected failure, or as one that passed unexpectedly."""
        if self._ops is None:
            return
        word = ("known limitation" if status in FAILED else "unexpected pass") if expected else status.value
        self._counts[word] += 1
        note = "  ".join(f"{word} {count}" for word, count in sorted(self._counts.items()))
        self._open().update(self._ops, advance=1, note=note)
        self._open().refresh()

    def close(self) -> None:
        """Removes the bars from the terminal."""
        if self._bars is not None:
            self._bars.stop()
        self._bars, self._ops = None, None
        self._phases.clear()


def display(*, terminal: bool, verbosity: int, file: TextIO, write_line: Callable[[str], None]) -> Progress:
    """Chooses the display: none below verbosity 0, live on a terminal unless pytest lists each test (-v)."""
    if verbosity < 0:
        return Quiet()
    if terminal and verbosity == 0:
        return Live(file)
    return Lines(write_line)
