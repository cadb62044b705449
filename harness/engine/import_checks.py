"""Checks the imports of models as jobs of their run, with the limitations that name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from opscope.base.slots import SlotAddress
from opscope.harness.cache.claims import Claims
from opscope.harness.engine.jobs import Job, Kind, side_by_side
from opscope.harness.engine.model_jobs import Check
from opscope.harness.import_check import hold
from opscope.harness.limitations.import_rows import judged_import
from opscope.harness.limitations.limitations import Limitation
from opscope.harness.prepare.preparation import Task
from opscope.harness.prepare.turn import Turn
from opscope.harness.record.records import ImportCheck, ManifestHeader


def import_check(claims: Claims, rows: Sequence[Limitation]) -> Check:
    """What checks a prepared model against its own framework, and says which of `rows` names the outcome."""

    def check(task: Task, folder: Path, slots: SlotAddress | None, turn: Turn) -> ImportCheck:
        return judged_import(hold.kept(task, folder, claims, slots, turn), rows)

    return check


def check_all(
    tasks: Sequence[Task],
    header: ManifestHeader,
    check: Check,
    report: Callable[[dict[str, Any]], None],
    at_once: int = 1,
) -> tuple[ImportCheck, ...]:
    """One check for each model of the header that a framework exported, `at_once` of them side by side."""
    by_name = {task.name: task for task in tasks}
    jobs = [
        Job(Kind.CHECK, model, partial(check, task, Path(folder), None))
        for model, folder in zip(header.models, header.export_dirs, strict=True)
        if (task := by_name.get(model)) is not None and task.export is not None
    ]
    return tuple(side_by_side(jobs, at_once, report))
