"""A sample of the ops whose verdicts are kept runs again before the first of them is used.

A list of what a verdict was made from does not know everything: a file that is only asked for, what came over the
network, the machine itself. Nights take a sample, and so does `--check-kept`.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence

from opscope.harness.climb.reruns import fault_of_machine, outcome, pressure
from opscope.harness.climb.result_cache import ResultCache
from opscope.harness.lanes.lane import Lane
from opscope.harness.record.records import OpRow, OpTest

SHARE, LEAST = 0.01, 3
"""How many of the ops with a kept verdict are drawn, at least so many."""
SECONDS = 2.0
"""Time after which no further op of the sample begins, from when the lane is ready."""


def drawn(rows: Sequence[OpRow], day: str) -> list[OpRow]:
    """The sample of some ops, another one each day."""
    count = min(len(rows), max(LEAST, math.ceil(SHARE * len(rows))))
    return random.Random(day).sample(sorted(rows, key=lambda row: row.op_id), count)


def difference(cache: ResultCache, lane: Lane, rows: Sequence[OpRow], day: str) -> str:
    """What one op of a day's sample says otherwise than its kept verdict, which is removed then with all that rest on
    the same; empty if all say the same. Raises InputError if the lane does not start."""
    kept = [each for row in rows if row.module is not None for each in row.by_class if cache.has(each)]
    if not kept:
        return ""
    lane.ready()
    end = time.monotonic() + SECONDS
    for row in drawn(kept, day):
        if time.monotonic() > end:
            break
        before = cache.of_class(row)
        if before is None:
            continue
        now = lane.run(row)
        if _said(now) == _said(before) or fault_of_machine(now, pressure()):
            continue
        if any(_said(again) != _said(now) for again in _again(lane, row)):
            continue  # it differs by itself, as reruns show
        cache.forget(row)
        then = f", kept was {_text(before)}" if _text(now) != _text(before) else " with other bits than were kept"
        return f"{row.op_name} [{row.op_id}] ends as {_text(now)}{then}"
    return ""


def _again(lane: Lane, row: OpRow) -> Iterator[OpTest]:
    """Two further runs of an op, each in a fresh child: with the one before as many as reruns make of a failure."""
    for _ in range(2):
        lane.fresh()
        yield lane.run(row)


def _said(test: OpTest) -> tuple[object, ...]:
    """Stage and cause of a verdict, and the numbers and the digest of each result."""
    return (test.status, test.failed_stage, test.error_signature, test.results)


def _text(test: OpTest) -> str:
    worst = max((result.max_abs or 0.0 for result in test.results), default=0.0)
    return f"{outcome(test)}{f' (largest error {worst:.3g})' if test.results else ''}"
