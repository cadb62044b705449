"""Compares expected failures with a run: which rows expired, which name no op, and which no longer hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

from opscope.base.statuses import NOT_ATTEMPTED
from opscope.base.visible_text import counted
from opscope.harness.limitations.limitation_file import OWN
from opscope.harness.limitations.limitations import GRACE, Limitation, boards, match, now, verdict
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Status
from opscope.harness.record.store import StoredRun

FULL = "all"
"""The value of --model for a full sweep."""

UNSEEN = frozenset(map(Status, NOT_ATTEMPTED))
"""Statuses that do not show how an op would have ended."""


@dataclass(frozen=True)
class Row:
    """One row with the ops of a run that it names."""

    limitation: Limitation
    excused: tuple[OpTest, ...]
    """Ops that failed as the row says, whether or not the row has expired."""
    passed: tuple[OpTest, ...]
    other: tuple[OpTest, ...]
    """Ops that failed in another way, and that no other row excuses."""
    unseen: int = 0
    """Ops that it names and that the run did not try: deselected, of another share, stopped, not reached."""

    @property
    def named(self) -> int:
        """How many of the named ops were tried."""
        return len(self.excused) + len(self.passed) + len(self.other)


def is_full(run: StoredRun) -> bool:
    """Whether a run tried every op of every model, to the end."""
    options = run.record.origin.options
    partly = options.get("ops") or options.get("until")
    return FULL in options.get("models", ()) and not partly and run.record.outcome == "complete"


def rows_with_ops(run: StoredRun, rows: Sequence[Limitation]) -> list[Row]:
    """The rows for the run's backend and board, each with the ops that it names."""
    seen = [test for test in run.tests if test.status not in UNSEEN]
    unseen = [test for test in run.tests if test.status in UNSEEN]
    boards_of_run = {board for test in seen for board in boards(test)} | {run.record.arch}
    labels = {backend_label(name) for name in run.record.backend.split(",")}
    applicable = [row for row in rows if row.backend in labels and any(fnmatchcase(b, row.arch) for b in boards_of_run)]
    best = {(test.op_id, test.backend): match(test, rows=rows, today=date.min) for test in seen}
    noted = []
    for row in applicable:
        named = [test for test in seen if row.names(test, test.backend)]
        excused = [t for t in named if verdict(t, row, date.min).outcome == "xfail"]
        if not row.strict:  # the others are none of its business
            named = excused
        passed = [t for t in named if t.status is Status.SUCCESS]
        other = [t for t in named if t not in excused and t not in passed and best[t.op_id, t.backend] is row]
        untried = sum(row.names(test, test.backend) for test in unseen)
        noted.append(Row(row, tuple(excused), tuple(passed), tuple(other), untried))
    return noted


def expired(rows: Iterable[Row], today: date | None = None) -> list[str]:
    """A line for each row whose day has come and that excuses a failure of the run, or would have."""
    today = today or now()
    lines = []
    for row in rows:
        limitation = row.limitation
        if limitation.expires is None or not limitation.expired(today) or not row.excused:
            continue
        end = limitation.expires + GRACE
        effect = (
            f"still excuses {counted(len(row.excused), 'failure')} until {end}"
            if limitation.excuses(today)
            else "excuses nothing"
        )
        lines.append(f"{limitation.where}: limitation expired on {limitation.expires}, {effect}; renew or delete it")
    return lines


def unmatched(run: StoredRun, rows: Iterable[Row]) -> list[str]:
    """A line for each row that names no op of the run; the project's own rows only where the run is a full sweep, since
    a run of some models does not have the ops of the others."""
    candidates = _without_op(rows) if is_full(run) else _of_the_user(_without_op(rows))
    return [f"{_nothing(row, len(run.tests))}; try deleting the row" for row in candidates]


def notes(run: StoredRun, rows: Sequence[Limitation], today: date | None = None) -> list[str]:
    """The lines on the page of a run: expired rows, and rows without an op.

    After a full sweep, rows without an op should be deleted. After a run of some models, only the user's own rows are
    reported, in one line: the op may be in another model, or its name may be misspelt.
    """
    noted = rows_with_ops(run, rows)
    ops = len(run.tests)
    if is_full(run):
        return [*expired(noted, today), *unmatched(run, noted)]
    of_the_user = _of_the_user(_without_op(noted))
    more = f" (more such rows: {len(of_the_user) - 1})" if len(of_the_user) > 1 else ""
    hint = "the spelling, or opscope limitations check RUN_DIR"
    return [*expired(noted, today), *(f"{_nothing(row, ops)}{more}; try {hint}" for row in of_the_user[:1])]


def _without_op(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not row.named and not row.unseen]


def _of_the_user(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.limitation.where.rpartition(":")[0] != str(OWN)]


def _nothing(row: Row, ops: int) -> str:
    limitation = row.limitation
    names = f"`{', '.join(limitation.op)}` names on {limitation.backend}"
    return f"{limitation.where}: expected an op that {names}, got none of {ops}"
