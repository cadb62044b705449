"""Compile times over the runs of a series: whether an op's settled on a higher level between two of them."""

from __future__ import annotations

from dataclasses import replace

from harness.errors import InputError
from reports.choosing import Listed, Runs
from reports.diff import Diff, Slower, compare
from reports.outcomes import Outcome, RunView, compile_seconds, series
from reports.steps import NEEDED, pieces

SUSPECT = 1.3
"""Growth from one run to the other that makes an op worth its history."""
LEVEL = 1.25
"""Growth of the level that counts as slower."""
LEAST_SECONDS = 0.005
"""Below this growth, a compile time is the machine's mood."""
RUNS = 30
"""How far back a history goes."""


def slower_between(runs: Runs, a: RunView, b: RunView) -> Slower | None:
    """The judge of compile times between `a` and `b`; None where the database has too few runs of their series.

    A step counts if it lies between the two runs; if they are neighbours also if it came with the earlier one, since
    it takes a second run to confirm it.
    """
    if runs.connection is None or series(a.backend, a.arch, a.origin["options"]) != _series(b):
        return None
    earlier = runs.before(b.run_id, b.started, _series(b), b.models)[: RUNS - 1]
    order = [run.run_id for run in reversed(earlier)] + [b.run_id]
    if len(order) < NEEDED or a.run_id not in order:
        return None
    # The step may have come with `a` itself, so an op is measured against the run before it too.
    neighbours = order[-2] == a.run_id
    common = [op_id for op_id in b.ops if op_id in a.ops]
    before = {op_id: a.ops[op_id].compile_seconds for op_id in common}
    if neighbours:
        for _, op_id, stages in runs.stages_of(order[-3:-2], common):
            before[op_id] = min(before[op_id], compile_seconds(stages))
    suspects = [op_id for op_id in common if _suspect(b.ops[op_id].compile_seconds, before[op_id])]
    times: dict[str, dict[str, float]] = {}
    for run_id, op_id, stages in runs.stages_of(order, suspects):
        times.setdefault(op_id, {})[run_id] = compile_seconds(stages)
    since = order.index(a.run_id)

    def judge(_: Outcome, new: Outcome) -> str:
        found = times.get(new.op_id, {})
        there = [run_id for run_id in order if found.get(run_id)]
        if b.run_id not in there or len(there) < NEEDED:
            return ""
        cut = pieces([found[run_id] for run_id in there])
        if len(cut) < 2:
            return ""
        last, before = cut[-1], cut[-2]
        first = order.index(there[last.start])
        late_enough = first > since or (first == since and neighbours)
        grown = last.level > LEVEL * before.level and last.level - before.level > LEAST_SECONDS
        if not (late_enough and grown):
            return ""
        return f"compile time {1000 * before.level:.1f} -> {1000 * last.level:.1f} ms since {there[last.start]}"

    return judge


def _series(run: RunView) -> tuple[object, ...]:
    return series(run.backend, run.arch, run.origin["options"])


def _suspect(now: float, before: float) -> bool:
    return now > max(SUSPECT * before, before + LEAST_SECONDS)


# --- two runs, compared with what is known of earlier ones


def compared(runs: Runs, run_a: str | None = None, run_b: str | None = None) -> Diff:
    """Two runs compared: those named; the one named and the newest comparable one before it; or the newest two.

    Raises InputError where a run is missing or has none to be compared with.
    """
    if run_a is None:
        early, late = runs.pair()
        newest = runs.newest()
        found = _compared(runs, runs.read(early), runs.read(late))
        if newest.run_id == late.run_id:
            return found
        note = f"the newest run, {newest.run_id}, has no comparable one before it"
        return replace(found, notes=(*found.notes, note))
    if run_b is None:
        late_view = runs.view(run_a)
        return _compared(runs, runs.read(comparable(runs, late_view)), late_view)
    return _compared(runs, runs.view(run_a, "RUN_A"), runs.view(run_b, "RUN_B"))


def _compared(runs: Runs, a: RunView, b: RunView) -> Diff:
    return compare(a, b, slower_between(runs, a, b))


def comparable(runs: Runs, run: RunView) -> Listed:
    """The newest comparable run before `run`. Raises InputError where there is none."""
    earlier = runs.before(run.run_id, run.started, _series(run), run.models)
    if not earlier:
        what = "an earlier run with the same backend, board, options and a model in common"
        raise InputError("opscope diff", what, "none", f"opscope diff RUN_A {run.run_id}")
    return earlier[0]
