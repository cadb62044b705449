"""Interactions run again at lower levels only where there are such, as many as there may be, and in time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opscope.harness.record.isolation import INTERACTION, Artefact
from opscope.harness.record.optest import build_test
from opscope.harness.record.records import ManifestHeader, OpTest
from opscope.harness.record.stages import Status
from opscope.harness.run import interaction_levels, process_plan
from opscope.harness.run.plan import RunPlan
from opscope.harness.tests import run_folder
from opscope.harness.tests.run.test_plan import FIRST, SECOND, request


def failed(folder: Path, backend: str) -> tuple[RunPlan, list[OpTest], list[Artefact]]:
    """A run at level 2 with two interactions, and an op that is none."""
    asked = request(folder, backend=backend, optimization_level=2, cache_dir=str(folder / "cache"))
    orders = process_plan.orders_of(asked, "run", folder / "run", asked.settings.values)
    rows = [run_folder.row(op_id) for op_id in (FIRST, SECOND)]
    plan = RunPlan(
        orders, ManifestHeader(models=("m",), export_dirs=(str(folder),), module_ops={}, structural={}), rows
    )
    tests = [
        build_test(row, orders.context, status=Status.WRONG_RESULT, started=None, error=f"off {row.op_id}")
        for row in rows
    ]
    found = [
        Artefact(label, test.op_id, test.op_name, "m", backend, "right", "main/1", "", "wrong_result", None, None)
        for test, label in zip((*tests, tests[0]), (INTERACTION, INTERACTION, "another label"), strict=True)
    ]
    return plan, tests, found


def test_a_backend_without_levels_says_nothing(tmp_path: Path) -> None:
    plan, tests, found = failed(tmp_path, "xla")
    assert interaction_levels.located(plan, tests, found) == (found, 0)


def test_what_is_more_than_the_most_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interaction_levels, "MOST", 0)
    plan, tests, found = failed(tmp_path, "reference")
    assert interaction_levels.located(plan, tests, found) == (found, 2)


def test_nothing_runs_once_the_budget_is_spent(tmp_path: Path) -> None:
    plan, tests, found = failed(tmp_path, "reference")
    late = replace(plan, orders=replace(plan.orders, deadline=0.0))
    assert interaction_levels.located(late, tests, found) == (found, 2)


def test_at_level_0_every_interaction_begins_there(tmp_path: Path) -> None:
    plan, tests, found = failed(tmp_path, "reference")
    options = plan.orders.context.options.changed(optimization_level=0)
    lowest = replace(plan, orders=replace(plan.orders, context=replace(plan.orders.context, options=options)))
    placed, left_out = interaction_levels.located(lowest, tests, found)
    assert ([one.level for one in placed], left_out) == ([0, 0, None], 0)
