"""Says how far a night is: the command's own line while a sweep runs, and a line at each start and end."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.text import Text

from opscope.base.live import progress
from opscope.base.terminal import console
from opscope.base.visible_text import one_line
from opscope.reports.nightly.running import SweepResult
from opscope.reports.nightly.sweeps import Sweep


class Display:
    """Displays the progress of the sweeps; a context manager."""

    def __init__(self, sweeps: int, *, aside: bool = False) -> None:
        """`aside`: on the error stream, of a command whose output is an answer."""
        self._console = console(file=sys.stderr if aside else None)
        self._sweeps = sweeps
        self._begun: dict[Sweep, int] = {}

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        progress.step("")

    def watch(self, sweep: Sweep, done: int, total: int) -> None:
        """Updates the progress of a sweep."""
        if sweep not in self._begun:
            self._begun[sweep] = len(self._begun) + 1
            if not self._console.is_terminal:
                self.line(f"{sweep.label}: sweep {self._begun[sweep]} of {self._sweeps}")
        place = f"sweep {self._begun[sweep]}/{self._sweeps} · {sweep.label}"
        if total:
            progress.step(f"{place} · op", done, total)
        else:
            progress.step(f"{place} · preparing its models")

    def ended(self, result: SweepResult) -> None:
        """Prints how a sweep ended."""
        reason = f": {result.line}" if result.line else ""
        self.line(f"{result.sweep.label}: {result.outcome.replace('_', ' ')} after {result.seconds:.0f} s{reason}")

    def line(self, text: str) -> None:
        """Prints a line above the progress."""
        self._console.print(Text(one_line(text)), soft_wrap=True)
