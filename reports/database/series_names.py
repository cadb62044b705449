"""How a series is called where people read it: without its defaults, and without a board that its backend lacks.

Its key (`rows.series_text`) has them all, so that runs of all times can be compared.
"""

from __future__ import annotations

import sqlalchemy as sa

from opscope.base.night_grid.grid import word_of_name
from opscope.harness.record.optest import board_of
from opscope.reports.database.endings import USUAL
from opscope.reports.database.rows import series_by_backend
from opscope.reports.database.schema import OP_TESTS, RUNS
from opscope.reports.database.schema_nights import in_series, of_series


def series_name(backend: str, board: str, series: str) -> str:
    """`reference n150 Bfp8_b`, `mine until=lower`: the backend, its board if it has one, and what of the key differs
    from the usual, so that two series have one name nowhere. In SQL: `endings.platform_of`."""
    own = [word for word in series.split(" ")[2:] if word not in USUAL]
    return " ".join(filter(None, (backend, board, *map(word_of_name, own))))


def names_of(connection: sa.Connection, night_id: str) -> dict[str, str]:
    """Series -> its name, of all series in which a night has a run."""
    runs = connection.execute(sa.select(RUNS.c.backend, RUNS.c.arch, RUNS.c.options).where(RUNS.c.night_id == night_id))
    names: dict[str, str] = {}
    for run in runs.all():
        for backend, series in series_by_backend(run.backend, run.arch, run.options).items():
            if series not in names:
                names[series] = series_name(backend, board_in(connection, night_id, series, run.arch), series)
    return names


def board_in(connection: sa.Connection, night_id: str, series: str, arch: str) -> str:
    """The board of a series of a night; empty where its backend has none. Without a test: `arch`, as asked for."""
    cards = _cards(connection, night_id, series)
    return board_of(cards, arch) if cards else arch


def board_tried(connection: sa.Connection, night_id: str, series: str, arch: str) -> str | None:
    """As `board_in`; None where no op was tried, so that it is not known whether the backend has a board."""
    cards = _cards(connection, night_id, series) - {"none"}
    return board_of(cards, arch) if cards else None


def _cards(connection: sa.Connection, night_id: str, series: str) -> set[str]:
    """What the ops of a series of a night ran on."""
    return set(connection.scalars(_CARDS, of_series(night_id, series)))


_CARDS = sa.select(OP_TESTS.c.card_type).where(in_series(OP_TESTS)).distinct()
