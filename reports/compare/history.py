"""Histories of times in a series: whether an op's time settled on a higher level between two runs or nights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import sqlalchemy as sa

from opscope.harness.record.errors import InputError
from opscope.reports.compare.change_points import NEEDED, pieces
from opscope.reports.compare.diff import Diff, Slower, compare
from opscope.reports.compare.isolated import labelled
from opscope.reports.compare.outcomes import Outcome, RunView, aliases, pieces_of
from opscope.reports.compare.run_selection import Listed, Runs, left_out_line
from opscope.reports.database.schema import NIGHTS, OP_TESTS
from opscope.reports.database.schema_nights import NIGHT_SERIES

SUSPECT = 1.3
"""Growth between the two runs from which on an op's history is read."""
LEVEL = 1.25
"""Growth of the level that counts as slower."""
LEAST_SECONDS = 0.005
"""Growth of a compile time below this is noise of the machine."""
RUNS = 30
"""Number of runs in a history."""


def slower_between(runs: Runs, a: RunView, b: RunView) -> Slower | None:
    """The function that finds slower ops between `a` and `b`; None if the database has too few runs of their series.

    A step counts if it lies between the two runs. If they are neighbours, a step that came with the earlier run counts
    too, since it takes a second run to confirm it.
    """
    if runs.connection is None or a.series != b.series:
        return None
    earlier = runs.before(b.run_id, b.started, b.series, b.models)[: RUNS - 1]
    order = [run.run_id for run in reversed(earlier)] + [b.run_id]
    right = (OP_TESTS.c.superseded_by != OP_TESTS.c.run_id) & OP_TESTS.c.backend.in_(b.backends)
    return _slower_in(runs.connection, a, b, order, OP_TESTS.c.run_id, right)


def slower_between_nights(connection: sa.Connection, a: RunView, b: RunView) -> Slower | None:
    """The same as `slower_between`, for two nights of one series."""
    if a.series != b.series:
        return None
    of = {"night": b.run_id, "series": b.series, "before": b.started, "number": RUNS - 1}
    order = [*reversed(connection.scalars(_NIGHTS, of).all()), b.run_id]
    right = (OP_TESTS.c.superseded_by == "") & (OP_TESTS.c.series == b.series)
    return _slower_in(connection, a, b, order, OP_TESTS.c.night_id, right)


_NIGHTS = (
    sa.select(NIGHT_SERIES.c.night_id)
    .join(NIGHTS, NIGHTS.c.night_id == NIGHT_SERIES.c.night_id)
    .where(NIGHT_SERIES.c.series == sa.bindparam("series"), NIGHT_SERIES.c.started < sa.bindparam("before"))
    .where(
        NIGHTS.c.kind == sa.select(NIGHTS.c.kind).where(NIGHTS.c.night_id == sa.bindparam("night")).scalar_subquery()
    )
    .order_by(NIGHT_SERIES.c.started.desc(), NIGHT_SERIES.c.night_id.desc())
    .limit(sa.bindparam("number", type_=sa.Integer()))
)


@dataclass(frozen=True)
class Measure:
    """A quantity whose level is watched."""

    what: str
    column: str
    """Of `op_tests`."""
    unit: str
    factor: float
    """Factor from a stored value to the unit."""
    digits: int
    """Shown behind the point."""
    least: float
    """Growth below this is noise of the machine."""
    get: Callable[[Outcome], float | None]

    def shown(self, value: float) -> str:
        """A value in the measure's unit."""
        return f"{self.factor * value:.{self.digits}f}"


MEASURES = (
    Measure("compile time", "compile_seconds", "ms", 1000.0, 1, LEAST_SECONDS, lambda op: op.compile_seconds),
    Measure("cycles", "cycles", "cycles", 1.0, 0, 1.0, lambda op: None if op.ran_on == "simulator" else op.cycles),
)
"""Cycles of the simulator have no noise and need no history (diff.py): those of silicon do."""


def _slower_in(
    connection: sa.Connection,
    a: RunView,
    b: RunView,
    order: Sequence[str],
    key: sa.Column[str],
    which: sa.ColumnElement[bool],
) -> Slower | None:
    """The function for `slower_between`. `order`: runs or nights up to `b`, oldest first, as named in column `key`."""
    if len(order) < NEEDED or a.run_id not in order:
        return None
    histories = [(measure, _histories(connection, a, b, order, key, which, measure)) for measure in MEASURES]
    since, neighbours = order.index(a.run_id), order[-2] == a.run_id

    def slower(_: Outcome, new: Outcome) -> str:
        for measure, times in histories:
            values = times.get(new.op_id)
            if values is None:
                continue  # it takes no more than it used to, as nearly every op
            runs_with_value = [run_id for run_id in order if values.get(run_id)]
            if b.run_id not in runs_with_value or len(runs_with_value) < NEEDED:
                continue
            cut = pieces([values[run_id] for run_id in runs_with_value])
            if len(cut) < 2:
                continue
            last, before = cut[-1], cut[-2]
            first = order.index(runs_with_value[last.start])
            late_enough = first > since or (first == since and neighbours)
            if late_enough and last.level > LEVEL * before.level and last.level - before.level > measure.least:
                old, now = (measure.shown(level) for level in (before.level, last.level))
                return f"{measure.what} {old} -> {now} {measure.unit} since {runs_with_value[last.start]}"
        return ""

    return slower


def _histories(
    connection: sa.Connection,
    a: RunView,
    b: RunView,
    order: Sequence[str],
    key: sa.Column[str],
    which: sa.ColumnElement[bool],
    measure: Measure,
) -> dict[str, dict[str, float]]:
    """Op -> run or night -> value, for the ops that took more in `b` than before."""
    common = [op_id for op_id in b.ops if op_id in a.ops]
    before = {op_id: measure.get(a.ops[op_id]) or 0.0 for op_id in common}

    renamed = aliases(connection)
    query = sa.select(key, OP_TESTS.c.op_id, OP_TESTS.c[measure.column]).where(OP_TESTS.c.status == "success", which)

    def values(statement: sa.Executable) -> Iterator[tuple[str, str, float]]:
        for run_id, op_id, value in connection.execute(statement).all():
            yield run_id, renamed.get(op_id) or op_id, value or 0.0

    grown = [op_id for op_id in common if _suspect(measure.get(b.ops[op_id]) or 0.0, 0.0, measure.least)]
    if grown and order[-2] == a.run_id:
        # The step may have come with `a` itself, so an op is measured against the run before it: all of that run is one
        # statement, and reading it takes less than asking for its ops by name.
        grown_ids = set(grown)
        for _, op_id, value in values(query.where(key == order[-3])):
            if op_id in grown_ids:
                before[op_id] = min(before[op_id], value)
    suspects = [op_id for op_id in grown if _suspect(measure.get(b.ops[op_id]) or 0.0, before[op_id], measure.least)]
    histories: dict[str, dict[str, float]] = {}
    old_ids = [old for old, new in renamed.items() if new in set(suspects)] if renamed else []
    for piece in pieces_of([*suspects, *old_ids]):
        for run_id, op_id, value in values(query.where(key.in_(order), OP_TESTS.c.op_id.in_(piece))):
            histories.setdefault(op_id, {})[run_id] = value
    return histories


def _suspect(now: float, before: float, least: float) -> bool:
    return now > max(SUSPECT * before, before + least)


# --- two runs, compared with what is known of earlier ones


def compared(runs: Runs, run_a: str | None = None, run_b: str | None = None) -> list[Diff]:
    """Two runs compared: those named; the one named and the newest comparable one before it; or the newest two.

    One comparison for each backend that both have. Raises InputError where a run is missing or has none to be compared
    with.
    """
    if run_a is None:
        early, late = runs.pair()
        newest = runs.counting()[0]
        first, *others = _by_backend(runs, partial(runs.read, early), partial(runs.read, late))
        notes = list(first.notes)
        if newest.run_id != late.run_id:
            notes.append(f"the newest run, {newest.run_id}, has no comparable one before it")
        newer = [run for run in runs.left_out() if run.started > late.started and run.series == late.series]
        notes += filter(None, [left_out_line(newer)])
        return [replace(first, notes=tuple(notes)), *others]
    if run_b is None:
        before = comparable(runs, runs.view(run_a))
        return _by_backend(runs, partial(runs.read, before), partial(runs.view, run_a, "RUN"))
    sides = (partial(runs.view, name, where) for name, where in ((run_a, "RUN_A"), (run_b, "RUN_B")))
    return [labelled(diff, runs.root) for diff in _by_backend(runs, *sides)]


def between_backends(runs: Runs, a: str, b: str) -> Diff | None:
    """Two backends compared in the newest run that has both, else each in its newest run; None if either has none."""
    listed = runs.listed()
    both = next((run for run in listed if {a, b} <= {*run.backends}), None)
    of_a, of_b = (both or next((run for run in listed if name in run.backends), None) for name in (a, b))
    if of_a is None or of_b is None:
        return None
    return _compared(runs, runs.read(of_a, a), runs.read(of_b, b))


def _by_backend(runs: Runs, a: Callable[..., RunView], b: Callable[..., RunView]) -> list[Diff]:
    """`a` and `b` give a run, or with `backend` what it says of that one."""
    of_a, of_b = a(), b()
    common = [name for name in of_b.backends if name in of_a.backends]
    if not common or of_a.backends == of_b.backends == (of_b.backend,):
        return [_compared(runs, of_a, of_b)]
    return [_compared(runs, a(backend=name), b(backend=name)) for name in common]


def _compared(runs: Runs, a: RunView, b: RunView) -> Diff:
    return compare(a, b, slower_between(runs, a, b))


def comparable(runs: Runs, run: RunView) -> Listed:
    """The newest comparable run before `run`. Raises InputError where there is none."""
    earlier = runs.before(run.run_id, run.started, run.series, run.models)
    if not earlier:
        expected = "an earlier run with the same backend, board, options and a model in common"
        raise InputError("opscope diff", expected, "none", f"opscope diff RUN_A {run.run_id}")
    return earlier[0]
