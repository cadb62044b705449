"""Prints tables and lines: plain text if stdout is not a terminal, and commands never broken over lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from opscope.base.terminal import console
from opscope.base.visible_text import one_line
from opscope.reports.records.table_layout import column_widths

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 160
"""Width of a table in columns if stdout is not a terminal (a file, a pipe) and COLUMNS does not say another."""

Column = tuple[str, str]
"""A heading, and `right` or `left`."""


class Page:
    """A page of lines and tables on stdout."""

    def __init__(self) -> None:
        self.console: Console = console()
        if not (self.console.is_terminal or os.environ.get("COLUMNS")):
            self.console.width = max(self.console.width, WIDEST)

    def line(self, text: str = "", style: str = "", indent: int = 0) -> None:
        """Prints one line and leaves wrapping to the terminal, so that a command in it can be copied whole."""
        from rich.text import Text

        self.console.print(Text(" " * indent + shown(text), style=style), soft_wrap=True)

    def pieces(self, pieces: Iterable[tuple[str, str]], indent: int = 0) -> None:
        """Prints one line of several styles."""
        from rich.text import Text

        self.console.print(
            Text.assemble(" " * indent, *((shown(text), style) for text, style in pieces)), soft_wrap=True
        )

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Any]], title: str = "") -> None:
        """Prints a table; texts are printed as they are, never as markup.

        No word is broken over two lines. Where the columns do not fit so, each row is printed as a list of its cells.
        """
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify="left")
        cells = [[shown(cell) for cell in row] for row in rows]
        headings = [heading for heading, _ in columns]
        widths = column_widths([headings, *cells], self.console.width)
        if widths is None:
            self._list(headings, cells, title)
            return
        for (heading, side), width in zip(columns, widths, strict=True):
            table.add_column(heading, justify="right" if side == "right" else "left", overflow="fold", width=width)
        for row in cells:
            table.add_row(*map(Text, row))
        self.console.print(table)

    def _list(self, headings: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
        """Prints the cells of each row below each other, without those that are empty."""
        from rich.table import Table
        from rich.text import Text

        self.line(title, "italic")
        for row in rows:
            grid = Table.grid(padding=(0, 2))
            grid.add_column(no_wrap=True, style="dim")
            grid.add_column(overflow="fold")
            for heading, cell in zip(headings, row, strict=True):
                if cell:
                    grid.add_row(Text(heading), Text(cell))
            self.console.print(grid)
            self.line()


def shown(value: Any) -> str:
    """Formats a value for a cell: on one line, with escapes for characters that act on a terminal."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return one_line(str(value))


def percent(rate: float | None) -> str:
    """Formats a share as a percentage; never 100 % if even one of many is missing."""
    if rate is None:
        return "-"
    text = f"{100 * rate:.1f} %"
    return "<100 %" if text == "100.0 %" and rate < 1 else text
