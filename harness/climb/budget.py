"""The time budget: which ops run first, and when no further op is started.

First come ops whose verdict is kept, which cost nothing, then ops that failed last time, then ops that never ran, then
the rest. Within each group, ops are sorted by uses per second of estimated cost, the highest first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from opscope.harness.record import history
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import Status

REASON = "budget"
"""Reason in the record of an op that the budget did not reach."""


def order(
    rows: Collection[OpRow],
    folder: Path,
    context: RunContext,
    is_kept: Callable[[OpRow], bool] = lambda row: False,
    pasts: Mapping[str, history.Past] | None = None,
) -> tuple[str, ...]:
    """Returns the ids of the ops in the order in which the budget is spent on them.

    `folder` holds earlier runs. `pasts` are past results from another source, such as a file, and take precedence.
    """
    pasts = pasts or {}
    past = history.past_of_ops(folder, context, [row.op_id for row in rows if row.op_id not in pasts]) | dict(pasts)
    cost = history.estimates(rows, past)

    def rank(row: OpRow) -> tuple[int, float]:
        if is_kept(row):
            group = 0
        elif row.op_id not in past:
            group = 2
        else:
            group = 1 if past[row.op_id].failed else 3
        return group, -len(row.uses) / max(cost[row.op_id], 1e-6)

    return tuple(row.op_id for row in sorted(rows, key=rank))


def clock(deadline: float | None) -> Callable[[], bool]:
    """What says whether an op may still be started before `deadline` (time.time); with None, it always may.

    By a clock that nobody sets: one that is set back would make the run longer.
    """
    end = None if deadline is None else time.monotonic() + deadline - time.time()
    return lambda: end is None or time.monotonic() < end


def left_out(test: OpTest) -> bool:
    """Whether an op did not run because the budget was spent."""
    return test.status is Status.NOT_RUN and test.error_message == REASON
