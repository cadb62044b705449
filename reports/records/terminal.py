"""Prints tables and lines: plain text if stdout is not a terminal, and commands never broken over lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from opscope.base.terminal import console
from opscope.base.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 160
"""Largest width of a table in columns if stdout is not a terminal (a file, a pipe)."""

Column = tuple[str, str]
"""A heading, and `right` or `left`."""


class Page:
    """A page of lines and tables on stdout."""

    def __init__(self) -> None:
        self.console: Console = console()
        if not self.console.is_terminal:
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
        """Prints a table; texts are printed as they are, never as markup."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify="left")
        for heading, side in columns:
            table.add_column(heading, justify="right" if side == "right" else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(shown(cell)) for cell in row))
        self.console.print(table)


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
