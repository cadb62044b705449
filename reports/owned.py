"""Owners put beside failing rows: of a comparison, a ranking, a model's missing ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reports.diff import QUIET, Diff, Row
from reports.owners import Rule, owner
from reports.unblock import Plan


def own_diff(diff: Diff, rules: Sequence[Rule], team: str | None = None) -> Diff:
    """The comparison with an owner in every row that is not quiet; with `team` only its rows and clusters are left."""
    rows = tuple(replace(row, owner=_owner(row, rules)) for row in diff.rows)
    if team is None:
        return replace(diff, rows=rows)
    rows = tuple(row for row in rows if row.owner == team)
    causes = {row.cluster for row in rows}
    counts = {label: sum(row.label == label for row in rows) for label in diff.counts}
    clusters = tuple(one for one in diff.clusters if one["cluster"] in causes)
    counts = {label: count for label, count in counts.items() if count}
    return replace(diff, rows=rows, clusters=clusters, counts=counts)


def _owner(row: Row, rules: Sequence[Rule]) -> str:
    if row.label in QUIET:
        return ""
    return owner(rules, [row.op_name], row.failed_stage, row.cluster, row.models)


def own_plan(plan: Plan, rules: Sequence[Rule], team: str | None = None) -> Plan:
    """The ranking with an owner beside every fix; with `team` only its fixes are left, the curve stays whole."""
    fixes = tuple(
        replace(fix, owner=owner(rules, fix.op_names, fix.stage, fix.cluster, fix.models)) for fix in plan.fixes
    )
    return replace(plan, fixes=tuple(fix for fix in fixes if team in (None, fix.owner)))


def own_missing(
    rows: Sequence[dict[str, Any]], model: str, rules: Sequence[Rule], team: str | None = None
) -> list[Any]:
    """A model's missing ops with their owners; with `team` only its rows are left."""
    told = [
        {**row, "owner": owner(rules, [row["op_name"]], row["failed_stage"] or row["stage"], row["cluster"], [model])}
        for row in rows
    ]
    return [row for row in told if team in (None, row["owner"])]
