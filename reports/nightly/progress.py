"""Shows the progress of a night: a bar per sweep in a terminal, else a line at each start and end."""

from __future__ import annotations

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from opscope.base.terminal import console
from opscope.base.visible_text import one_line
from opscope.reports.nightly.running import SweepResult
from opscope.reports.nightly.sweeps import Sweep


class Display:
    """Displays the progress of the sweeps; a context manager."""

    def __init__(self, sweeps: int) -> None:
        self._console = console()
        self._live = self._console.is_terminal
        self._sweeps = sweeps
        self._shown: dict[Sweep, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=self._console, disable=not self._live,
        )  # fmt: skip

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def watch(self, sweep: Sweep, done: int, total: int) -> None:
        """Updates the progress of a sweep."""
        if sweep not in self._shown:
            self._shown[sweep] = self._progress.add_task(one_line(sweep.label), total=None)
            if not self._live:
                self.line(f"{sweep.label}: sweep {len(self._shown)} of {self._sweeps}")
        self._progress.update(self._shown[sweep], completed=done, total=total or None)

    def ended(self, result: SweepResult) -> None:
        """Prints how a sweep ended."""
        reason = f": {result.line}" if result.line else ""
        self.line(f"{result.sweep.label}: {result.outcome.replace('_', ' ')} after {result.seconds:.0f} s{reason}")

    def line(self, text: str) -> None:
        """Prints a line above the bars."""
        self._progress.console.print(Text(one_line(text)), soft_wrap=True)
