"""Adds owners to failures in comparisons, rankings, lists of missing ops, and pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opscope.base.labels import QUIET
from opscope.harness.record.causes import UNSPLITTABLE, cause_of, cause_of_test
from opscope.harness.record.records import WHOLE_MODEL, OpTest
from opscope.harness.record.stages import Stage
from opscope.reports.compare.diff import Diff, Row
from opscope.reports.compare.unblock import FixPlan, Missing
from opscope.reports.database.owners import Rule, owner
from opscope.reports.database.whole_models import cause_of_program


@dataclass(frozen=True)
class Owned:
    """Whose failures a page lists."""

    rules: Sequence[Rule] = ()
    team: str | None = None
    """None: those of all teams."""

    def lists(self, owner_of_row: str) -> bool:
        """Whether the page lists rows of that owner."""
        return self.team in (None, owner_of_row)

    def owner_of(self, test: OpTest) -> str:
        """The owner of an op that went wrong."""
        stage = str(test.failed_stage or test.stage_reached)
        return owner(self.rules, [test.op_name], stage, cause_of_test(test), test.models)

    def owner_of_model(self, row: Mapping[str, Any]) -> str:
        """The owner of a model that went wrong as one program, from its row of `whole_models`."""
        stage = str(row["failed_stage"] or row["stage_reached"])
        return owner(self.rules, [WHOLE_MODEL], stage, cause_of_program(row), [row["model"]])

    def owner_of_unsplittable(self, op_name: str, models: Iterable[str]) -> str:
        """The owner of an op that could not be split."""
        stage = str(Stage.SPLIT)
        return owner(self.rules, [op_name], stage, cause_of(UNSPLITTABLE, stage, op_name, ""), models)


EVERYBODY = Owned()
"""All failures, without rules of owners."""


def own_diff(diff: Diff, rules: Sequence[Rule], team: str | None = None) -> Diff:
    """Adds owners to the rows that are not quiet; with `team`, keeps only its rows and clusters."""
    rows = tuple(_owned(row, rules) for row in diff.rows)
    if team is None:
        return replace(diff, rows=rows)
    rows = tuple(row for row in rows if row.owner == team)
    causes = {row.cluster for row in rows}
    counts = {label: sum(row.label == label for row in rows) for label in diff.counts}
    clusters = tuple(cluster for cluster in diff.clusters if cluster.cluster in causes)
    counts = {label: count for label, count in counts.items() if count}
    return replace(diff, rows=rows, clusters=clusters, counts=counts)


def _owned(row: Row, rules: Sequence[Rule]) -> Row:
    team = _owner(row, rules)
    return row if team == row.owner else replace(row, owner=team)  # nearly every row is quiet, and stays as it is


def _owner(row: Row, rules: Sequence[Rule]) -> str:
    if row.label in QUIET:
        return ""
    return owner(rules, [row.op_name], row.failed_stage, row.cluster, row.models)


def own_plan(plan: FixPlan, rules: Sequence[Rule], team: str | None = None) -> FixPlan:
    """Adds an owner to every fix; with `team`, keeps only its fixes but the whole curve."""
    fixes = tuple(
        replace(fix, owner=owner(rules, fix.op_names, fix.stage, fix.cluster, fix.models)) for fix in plan.fixes
    )
    return replace(plan, fixes=tuple(fix for fix in fixes if team in (None, fix.owner)))


def own_missing(rows: Sequence[Missing], model: str, rules: Sequence[Rule], team: str | None = None) -> list[Missing]:
    """Adds owners to a model's missing ops; with `team`, keeps only its rows."""
    owned = [
        replace(row, owner=owner(rules, [row.op_name], row.failed_stage or row.stage, row.cluster, [model]))
        for row in rows
    ]
    return [row for row in owned if team in (None, row.owner)]
