"""Checks the import of a model as a job of its run, with the limitations that name it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opscope.base.children.side_by_side import Turn
from opscope.base.children.slots import SlotFile
from opscope.harness.cache.claims import Claims
from opscope.harness.import_check import hold
from opscope.harness.jobs.model_jobs import Check
from opscope.harness.limitations.import_rows import judged_import
from opscope.harness.limitations.limitations import Limitation
from opscope.harness.prepare.preparation import Task
from opscope.harness.record.records import ImportCheck


def import_check(claims: Claims, rows: Sequence[Limitation]) -> Check:
    """What checks a prepared model against its own framework, and says which of `rows` names the outcome."""

    def check(task: Task, folder: Path, slots: SlotFile | None, turn: Turn) -> ImportCheck:
        return judged_import(hold.kept(task, folder, claims, slots, turn), rows)

    return check
