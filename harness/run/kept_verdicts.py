"""What a run does about kept verdicts besides using them: a sample of them runs again, and its last lines say how many
were used, why not the others, and what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from opscope.base import damage
from opscope.harness.climb import kept_sample
from opscope.harness.climb.result_cache import ResultCache
from opscope.harness.lanes.flight import Ready
from opscope.harness.lanes.lane import Lane
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import ManifestHeader, OpRow, OpTest
from opscope.harness.record.stages import Status
from opscope.harness.run.plan import AnyLane, RunPlan
from opscope.harness.run.process_plan import Orders

MOST = 100
"""So many ops are asked what has changed."""
NAMED = 8
"""So many of the files that verdicts rest on are named."""


def checked(
    orders: Orders,
    lanes: Sequence[AnyLane],
    header: ManifestHeader,
    rows: Sequence[OpRow],
    ready: Sequence[Ready],
    day: str,
) -> Orders:
    """The orders, where a day's sample of kept verdicts runs again: a backend of which one does not hold keeps none and
    uses none. Ops of models whose goldens are still being made are not drawn. Raises InputError."""
    folders = dict(zip(header.models, header.export_dirs, strict=True))
    there = [row for row in rows if row.uses and row.uses[0].model not in header.unfinished]
    sides = []
    for each, lane, report in zip((orders, *orders.others), lanes, ready, strict=True):
        label, differs = backend_label(each.context.backend), ""
        if isinstance(lane, Lane):
            cache = ResultCache(each.caches, each.context, report, folders)
            differs = kept_sample.difference(cache, lane, there, f"{day} {label}")
        if differs:
            damage.say(f"{label}: a cached verdict does not hold, so none is used or kept in this run: {differs}")
        sides.append(replace(each, doubted=bool(differs)))
    return replace(sides[0], others=tuple(sides[1:]))


def notes(plan: RunPlan, tests: Sequence[OpTest], explain: bool) -> Iterator[str]:
    """How many verdicts of each backend are kept ones, and why others are not; with `explain`, what they rest on."""
    for side in plan.sides():
        orders, label = side.orders, backend_label(side.orders.context.backend)
        where = f"{label}: " if len(plan.sides()) > 1 else ""
        mine = {test.op_id: test for test in tests if test.backend == label and test.status is not Status.NOT_RUN}
        rows = [row for row in plan.rows if row.op_id in mine]
        anew = [row for row in rows if not mine[row.op_id].cached_from]
        cache = ResultCache(orders.caches, orders.context, orders.ready, plan.folders, orders.doubted)
        changed = cache.changed(anew[:MOST])
        reason = f"{changed} changed" if changed else cache.unseen if orders.doubted else ""
        kept = len(rows) - len(anew)
        if kept and anew:
            yield f"{where}{kept} of {len(rows)} kept{f': {reason}' if reason else ''}"
        elif kept:
            yield f"{where}{kept} kept"
        elif reason:
            yield f"{where}none kept: {reason}"
        if explain:
            yield f"{where}{_basis(cache, rows)}"


def _basis(cache: ResultCache, rows: Sequence[OpRow]) -> str:
    counts, own = cache.rests_on(rows)
    if not any(counts.values()):
        return f"nothing is kept{f': {cache.unseen}' if cache.unseen else ''}"
    more = f" and {len(own) - NAMED} more" if len(own) > NAMED else ""
    named = f"; of the project {', '.join(own[:NAMED])}{more}" if own else ""
    return f"verdicts rest on {', '.join(f'{count} {kind}' for kind, count in counts.items())}{named}"
