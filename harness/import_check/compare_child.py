"""The children that compare a walk's results with those of the model's own framework, and explain a difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opscope.base.children.inside import Parent
from opscope.base.slots import take_one
from opscope.harness.import_check import conditioning, second_authority
from opscope.harness.import_check.agreement import first_wrong
from opscope.harness.prepare.inputs import row_golden
from opscope.harness.prepare.whole_manifest import whole_rows
from opscope.harness.record.records import ImportCheck
from opscope.harness.record.stages import ImportStatus
from opscope.models.frontends import own_results


def compare_import(parent: Parent) -> dict[str, Any]:
    """The check of one model, as JSON.

    The task: `model`, `framework`, `folder` (its export folder), `own` (the framework's results), `cache_dir`,
    `environment` (the framework's), and `nodes`: the task of the process that gives the values of each ONNX node, or
    None. It works in one of `slots` (path and number; None for none).
    """
    task = parent.task()
    take_one(task["slots"])
    folder, (row,) = Path(task["folder"]), whole_rows([Path(task["folder"])])
    document, expected = own_results.read(Path(task["own"]))
    names = {"model": task["model"], "framework": task["framework"], "importer": row.frontend}
    check = ImportCheck(**names, status=ImportStatus.AGREES, held_to=document["by"])
    if document["not_run"]:
        status = ImportStatus.CRASHED if document.get("crashed") else ImportStatus.NOT_CHECKED
        check = check.model_copy(update={"status": status, "error": document["not_run"]})
        return check.model_dump(mode="json")
    got = row_golden(row, folder)
    wrong = first_wrong(expected, got, row.outputs)
    check = check.model_copy(update={"z_max": wrong[2]})
    if wrong[1]:
        error = second_authority.without_expectation(wrong[1])
        update: dict[str, Any] = {"status": ImportStatus.DIFFERS, "output": wrong[0], "error": error}
        if task["nodes"] is not None:
            from opscope.harness.import_check import first_node

            update["node"] = first_node.find(task["nodes"], task["environment"], Path(task["cache_dir"]))
        check = check.model_copy(update=update)
    return check.model_dump(mode="json")


def explain_import(parent: Parent) -> dict[str, Any]:
    """What the model's response to rounding, or else a second authority, makes of a check that differs, as JSON.

    The task: `check`, `folder`, `own`, `cache_dir` and `slots` as above, and `second`: the folder of what ONNX Runtime
    computed, empty for none.
    """
    task = parent.task()
    take_one(task["slots"])
    folder, (row,) = Path(task["folder"]), whole_rows([Path(task["folder"])])
    _, expected = own_results.read(Path(task["own"]))
    check = ImportCheck.model_validate(task["check"])
    check = conditioning.explained(check, expected, row, folder)
    if check.status is ImportStatus.DIFFERS and task["second"]:
        check = second_authority.judged_by_runtime(check, row, folder, Path(task["second"]))
    if check.status is ImportStatus.DIFFERS:
        check = second_authority.judged(check, expected, row, folder, Path(task["cache_dir"]))
    return check.model_dump(mode="json")
