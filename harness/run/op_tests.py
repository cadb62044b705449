"""What `run_op_by_op` returns: the records of a run as a list, which a notebook shows as the run's own page."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.plugins import plugins
from opscope.base.visible_text import counted
from opscope.harness.record.records import OpTest

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from opscope.harness.page.summary import Run

OF_RUNS = "opscope.of_runs"
"""Entry points that make something of run folders: `report`, `diff`."""
WIDTH = 100
"""Columns of the page in a notebook."""
_FONT = "font-family:Menlo,'DejaVu Sans Mono',Consolas,monospace"
_HTML = f'<pre style="{_FONT};line-height:normal;overflow-x:auto">{{code}}</pre>'
"""Columns stand below each other in a notebook's own style too, which may have another font."""


class OpTests(list[OpTest]):
    """The records of the ops of a run, in their order."""

    def __init__(self, tests: Iterable[OpTest], run_dir: Path) -> None:
        super().__init__(tests)
        self.run_dir = run_dir
        """The run folder, which `opscope show`, `report`, `publish` and `repro` take."""

    @property
    def failures(self) -> Failures:
        """Those that fail the run: a failure that no limitation names. A notebook shows them alone."""
        return Failures((test for test in self if test.fails_run), self.run_dir)

    def frame(self) -> pd.DataFrame:
        """A row for each op, a column for each field of its record. Needs pandas."""
        import pandas as pd

        return pd.DataFrame([test.model_dump() for test in self], columns=list(OpTest.model_fields))

    def diff(self, other: OpTests | str | Path) -> pd.DataFrame:
        """How each op changed from here to `other`, another answer or a run folder: `opscope.frames.diff`."""
        later = other.run_dir if isinstance(other, OpTests) else other
        return _of_runs("diff")(str(self.run_dir), str(later))

    def report(self) -> Path:
        """Writes the HTML page of the run into its folder, and returns its place."""
        return _of_runs("report")(self.run_dir)

    def __repr__(self) -> str:
        counts = Counter(test.status.value for test in self)
        ends = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        return f"{counted(len(self), 'op')}: {ends or 'none'}; {self.run_dir}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The page of the run, as a terminal shows it."""
        printer.text(repr(self) if cycle else self._page().export_text().rstrip())

    def _repr_html_(self) -> str:
        """The page of the run, in a notebook."""
        return self._page().export_html(inline_styles=True, code_format=_HTML)

    def _page(self) -> Any:
        """A console that has recorded the page."""
        from opscope.base.terminal import console
        from opscope.harness.run.finish_run import stored_page

        page = console(file=io.StringIO(), record=True, width=WIDTH, force_jupyter=False)
        self._show(stored_page(self.run_dir), page)
        return page

    def _show(self, run: Run, page: Console) -> None:
        from opscope.harness.page import summary

        summary.show(run, page)


class Failures(OpTests):
    """The records of the ops that fail a run."""

    def _show(self, run: Run, page: Console) -> None:
        from opscope.harness.page import summary

        summary.show_failing(replace(run, tests=self), page)


def _of_runs(name: str) -> Any:
    """What the installed rooms make of runs. Raises LookupError where the room that does it is not installed."""
    for point in plugins(OF_RUNS):
        if point.name == name:
            return point.load()
    raise LookupError(f"{name}: expected the entry point {name!r} of {OF_RUNS}, got none; try pip install opscope")
