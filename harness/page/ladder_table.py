"""The ladder in the terminal: families of ops against the furthest stage that their ops passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opscope.base.statuses import NOT_RUN
from opscope.base.terminal import plain, print_prose
from opscope.base.visible_text import one_line
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Status, in_order

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NO_CLIMB = frozenset({Status.SKIPPED, Status.NOT_RUN})
"""Statuses of ops that never started to climb."""

Cells = dict[str, dict[str, tuple[int, int]]]
"""Per family of ops and stage: unique ops and uses."""

HEADINGS: tuple[Callable[[str], str], ...] = (
    lambda stage: stage.replace("-to-", "\nto "),
    lambda stage: stage.replace("-to-", "\nto\n").replace("not run", "not\nrun"),
)
"""Headings of stages in two lines, and in three for a narrow terminal; rich would break within words."""


def ladder(tests: Sequence[OpTest]) -> Cells:
    """Per op family and furthest stage passed (or `not run`): unique ops and uses."""
    cells: dict[str, Counter[str]] = {}
    uses: dict[str, Counter[str]] = {}
    for test in tests:
        column = NOT_RUN if test.status in NO_CLIMB else test.stage_reached.value
        kind = test.op_kind or "other"
        cells.setdefault(kind, Counter())[column] += 1
        uses.setdefault(kind, Counter())[column] += test.uses
    return {kind: {c: (n, uses[kind][c]) for c, n in cells[kind].items()} for kind in sorted(cells)}


def show(tests: Sequence[OpTest], console: Console) -> None:
    """Prints the ladder: as a table, or a line for each family where that is too wide, or in plain mode."""
    from rich.measure import Measurement

    cells, columns = ladder(tests), stages(tests)
    for heading in () if plain() else HEADINGS:
        table = _table(cells, columns, tests, heading)
        if Measurement.get(console, console.options.update(max_width=10_000), table).maximum <= console.width:
            console.print(table)
            return
    for kind, row in cells.items():
        parts = ", ".join(f"{column} {_cell(*row[column])}" for column in columns if column in row)
        print_prose(console, f"{one_line(kind)}: {_cell(*_sum(row))} = {parts}", indent=2)


def stages(tests: Sequence[OpTest]) -> list[str]:
    """The stages that ops passed last, in the order in which ops pass them; `not run` comes last."""
    reached = {column for row in ladder(tests).values() for column in row}
    climbs = [[time.stage for time in test.stages] for test in tests]
    return [*in_order(reached - {NOT_RUN}, climbs), *([NOT_RUN] if NOT_RUN in reached else [])]


def _table(cells: Cells, columns: Sequence[str], tests: Sequence[OpTest], heading: Callable[[str], str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_footer=len(cells) > 1, pad_edge=False)
    table.add_column("op family", footer="all")
    for column in columns:
        total = _cell(*(sum(row.get(column, (0, 0))[i] for row in cells.values()) for i in (0, 1)))
        table.add_column(heading(column), justify="right", footer=total, no_wrap=True)
    table.add_column("ops", justify="right", footer=_cell(len(tests), sum(t.uses for t in tests)), no_wrap=True)
    for kind, row in cells.items():
        table.add_row(one_line(kind), *(_cell(*row.get(c, (0, 0))) for c in columns), _cell(*_sum(row)))
    return table


def _sum(row: dict[str, tuple[int, int]]) -> tuple[int, int]:
    return sum(n for n, _ in row.values()), sum(u for _, u in row.values())


def _cell(unique: int, uses: int) -> str:
    """One cell of the ladder."""
    return f"{unique} ({uses})" if unique else ""
