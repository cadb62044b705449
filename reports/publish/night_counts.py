"""How the ops of a night ended, counted by model, name and stage, and like for like with the night before it.

In `model` an empty text stands for all models together, each op counted once with the uses of all. An op without a
test was either not to be split off or is not there (yet): then it counts as not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opscope.harness.record.causes import UNSPLITTABLE
from opscope.harness.record.stages import FAILED
from opscope.reports.compare.outcomes import Outcome, RunView

ALL = ""
"""In place of a model: all of them together."""
_OPS = ("ops", "attempted_ops", "right_ops", "bad_ops", "flaky_ops")
COUNTS = (*_OPS, "uses", "attempted_uses", "right_uses", "bad_uses")
"""What is counted of each model."""

Row = list[Any]


def _places(op: Outcome) -> Iterator[tuple[str, int]]:
    yield from op.uses_of.items()
    if op.uses_of:
        yield ALL, op.uses


def counts(view: RunView) -> list[Row]:
    """The rows of `night_counts` without their night and series, in its columns' order."""
    rows_by_key: dict[tuple[Any, ...], Row] = {}
    for op in view.ops.values():
        expected = bool(op.expected) and op.status in FAILED
        cycles, bytes_ = op.cycles or 0, op.l1_peak_bytes or 0
        for model, uses in _places(op):
            key = (model, op.op_name, op.status, op.stage, op.ran_on, expected)
            row = rows_by_key.get(key)
            if row is None:
                rows_by_key[key] = [op.op_kind, 1, uses, int(op.flaky), cycles * uses, bytes_, op.compile_seconds]
                continue
            row[0] = min(row[0], op.op_kind)
            row[1] += 1
            row[2] += uses
            row[3] += op.flaky
            row[4] += cycles * uses
            row[5] = max(row[5], bytes_)
            row[6] += op.compile_seconds
    return [
        [model, name, kind, status, stage, ran_on, expected, *rest]
        for (model, name, status, stage, ran_on, expected), (kind, *rest) in sorted(rows_by_key.items())
    ]


def models(view: RunView) -> dict[str, dict[str, int]]:
    """Model -> its counts of ops and of uses, as `night_models` has them."""
    rows_by_model: dict[str, dict[str, int]] = {}
    for op in view.ops.values():
        for model, uses in op.uses_of.items():
            row = rows_by_model.get(model)
            if row is None:
                row = rows_by_model[model] = dict.fromkeys(COUNTS, 0)
            row["ops"] += 1
            row["uses"] += uses
            row["flaky_ops"] += op.flaky
            for name, holds in (("attempted", op.attempted), ("right", op.right), ("bad", op.bad)):
                if holds:
                    row[f"{name}_ops"] += 1
                    row[f"{name}_uses"] += uses
    return rows_by_model


def pairs(before: RunView, now: RunView) -> list[Row]:
    """The rows of `night_pairs` without their night and series: ops attempted in both, weighed by the uses of `now`."""
    both: dict[str, list[int]] = {}
    right: dict[tuple[str, str], list[int]] = {}
    for op_id, op in now.ops.items():
        old = before.ops.get(op_id)
        if old is None or not (old.attempted and op.attempted) or old.status == UNSPLITTABLE:
            continue
        sides = [(side, outcome.ran_on) for side, outcome in enumerate((old, op)) if outcome.right]
        for model, uses in _places(op):
            row = both.setdefault(model, [0, 0])
            row[0] += 1
            row[1] += uses
            for side, place in sides:
                counts_of_place = right.setdefault((model, place), [0, 0, 0, 0])
                counts_of_place[side] += 1
                counts_of_place[2 + side] += uses
    return list(_paired(both, right))


def _paired(both: Mapping[str, list[int]], right: Mapping[tuple[str, str], list[int]]) -> Iterator[Row]:
    places = sorted({place for _, place in right})
    for model, (ops, uses) in sorted(both.items()):
        for place in places:
            before, now, uses_before, uses_now = right.get((model, place), (0, 0, 0, 0))
            yield [model, place, ops, before, now, uses, uses_before, uses_now]
