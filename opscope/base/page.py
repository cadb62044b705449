"""Prints tables, sentences and lines: plain text if stdout is not a terminal, and commands never broken over lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from opscope.base.terminal import knows_its_width, page_console, plain, print_prose, wrapped
from opscope.base.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import Console

EDGES, BETWEEN = 2, 3
"""Columns of the terminal that a table takes beside its cells: at both edges together, and between two cells."""


def column_widths(cells: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """The width of each column of a table with these rows (the headings among them) in `room` columns of a terminal.

    A column is as wide as its longest cell, or narrower where there is not enough room, but never narrower than its
    longest word. None if that does not fit either.
    """
    from rich.cells import cell_len

    columns = list(zip(*cells, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    least = [max((cell_len(word) for text in column for word in text.split()), default=0) for column in columns]
    room -= EDGES + BETWEEN * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        # The widest gives way first, a column at a time, so that short ones stay on one line.
        widest = max((n for n in range(len(widths)) if widths[n] > least[n]), key=lambda n: widths[n])
        widths[widest] -= 1
    return widths


HANG = 6
"""Columns by which a text is indented below a head that is as long as a line."""
Column = tuple[str, str]
"""A heading, and `right` or `left`."""


class Page:
    """A page of lines and tables on stdout, or on a console whose width its maker chose."""

    def __init__(self, console: Console | None = None) -> None:
        self.console: Console = console or page_console()
        self._wraps = console is not None or knows_its_width(self.console)

    def line(self, text: str = "", style: str = "", indent: int = 0) -> None:
        """Prints one line and leaves wrapping to the terminal, so that a command in it can be copied whole."""
        from rich.text import Text

        self.console.print(Text(" " * indent + shown(text), style=style), soft_wrap=True)

    def prose(self, text: str, style: str = "", indent: int = 0) -> None:
        """Prints a sentence, wrapped at words where the width is known; a pipe without COLUMNS gets it in one line."""
        if self._wraps:
            print_prose(self.console, shown(text), style, indent)
        else:
            self.line(text, style, indent)

    def hanging(self, heads: Sequence[tuple[str, str]], texts: Sequence[str]) -> None:
        """Prints texts below each other, each after its head (text and style), and wrapped so that it hangs there."""
        from rich.cells import cell_len
        from rich.text import Text

        for (head, style), text in zip(heads, texts, strict=True):
            margin = cell_len(head)
            if self._wraps and margin > self.console.width // 2:  # a head that is a sentence itself
                first, *others = wrapped(shown(head + text), self.console.width - HANG)
                self.console.print(Text(first, style=style), soft_wrap=True)
                for other in others:
                    self.console.print(Text(" " * HANG + other), soft_wrap=True)
                continue
            room = max(24, self.console.width - margin) if self._wraps else sys.maxsize
            first, *others = wrapped(shown(text), room)
            self.console.print(Text.assemble((head, style), first), soft_wrap=True)
            for other in others:
                self.console.print(Text(" " * margin + other), soft_wrap=True)

    def folded(self, text: str, hang: int) -> None:
        """Prints a line whose parts stand in columns; where the width is known, parts that do not fit follow below,
        indented by `hang`."""
        if not self._wraps:
            self.line(text)
            return
        together = "\u00a0" if "  " in text.strip() else " "  # a part, such as `cycles 91`, stays whole
        whole = re.sub(r"(?<=\S) (?=\S)", together, text)
        first, *_ = wrapped(whole, self.console.width)
        self.line(first.replace(together, " ").rstrip())
        for line in wrapped(whole[len(first) :].strip(), self.console.width - hang):
            if line.strip():
                self.line(line.strip().replace(together, " "), indent=hang)

    def pieces(self, pieces: Iterable[tuple[str, str]], indent: int = 0) -> None:
        """Prints one line of several styles."""
        from rich.text import Text

        self.console.print(
            Text.assemble(" " * indent, *((shown(text), style) for text, style in pieces)), soft_wrap=True
        )

    def table(
        self,
        columns: Sequence[Column],
        rows: Iterable[Sequence[Any]],
        title: str = "",
        spare: Sequence[str] = (),
        fillable: Sequence[str] = (),
    ) -> None:
        """Prints a table; texts are printed as they are, never as markup. Columns in `fillable` are left out if empty.

        No word is broken over two lines. Where the columns do not fit so, those in `spare` are left out, that with the
        fewest filled cells first, and a line says so; where that is not enough, or in plain mode, each row is a list of
        all its cells.
        """
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify="left")
        cells = [[shown(cell) for cell in row] for row in rows]
        filled = [n for n, (head, _) in enumerate(columns) if head not in fillable or any(row[n] for row in cells)]
        columns, cells = [columns[n] for n in filled], [[row[n] for n in filled] for row in cells]
        headings = [heading for heading, _ in columns]
        kept, widths = self._fitting(headings, cells, spare)
        if widths is None or plain():
            self._list(headings, cells, title)
            return
        left_out = [heading for n, heading in enumerate(headings) if n not in kept]
        columns, cells = [columns[n] for n in kept], [[row[n] for n in kept] for row in cells]
        for (heading, side), width in zip(columns, widths, strict=True):
            table.add_column(heading, justify="right" if side == "right" else "left", overflow="fold", width=width)
        for row in cells:
            table.add_row(*map(Text, row))
        self.console.print(table)
        if left_out:
            self.prose(
                f"too narrow for the column{'s' * (len(left_out) != 1)} {', '.join(left_out)}; see --json", "dim"
            )

    def _fitting(
        self, headings: Sequence[str], cells: Sequence[Sequence[str]], spare: Sequence[str]
    ) -> tuple[list[int], list[int] | None]:
        """Positions of the columns that fit, and their widths; None if they do not fit even without `spare`."""
        kept, widths = list(range(len(headings))), None
        filled = {heading: sum(1 for row in cells if row[n]) for n, heading in enumerate(headings)}
        order = sorted(spare, key=lambda heading: filled.get(heading, 0))
        for dropped in range(len(order) + 1):
            kept = [n for n, heading in enumerate(headings) if heading not in order[:dropped]]
            rows = [[row[n] for n in kept] for row in (headings, *cells)]
            if (widths := column_widths(rows, self.console.width)) is not None:
                break
        return kept, widths

    def _list(self, headings: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
        """Prints the cells of each row below each other, without those that are empty."""
        from rich.table import Table
        from rich.text import Text

        if title:
            self.line(title, "italic")
        if plain():
            for row in rows:
                self.line(
                    "; ".join(f"{heading} {cell}".strip() for heading, cell in zip(headings, row, strict=True) if cell)
                )
            return
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
