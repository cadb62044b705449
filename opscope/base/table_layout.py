"""How wide the columns of a table are, so that no word is broken over two lines."""

from __future__ import annotations

from collections.abc import Sequence

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
