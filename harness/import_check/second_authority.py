"""A second authority on a model whose import seems to differ: framework and golden may be wrong as well as the import.

ONNX Runtime runs an ONNX graph that the standard's reference contradicts: if it agrees with the import, the reference
alone differs. StableHLO's interpreter computes what was imported once more, where it is small enough: if it agrees with
the framework, XLA alone differs. In neither case is the import to blame.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from opscope.harness.import_check.agreement import first_wrong
from opscope.harness.prepare.authorities.ask import ask
from opscope.harness.prepare.inputs import row_golden
from opscope.harness.record.optest import DOUBT
from opscope.harness.record.records import ImportCheck, OpRow
from opscope.harness.record.stages import ImportStatus
from opscope.models.frontends import own_results

_ELEMENT = re.compile(r"(\S+) instead of (\S+?)(?=,? )")
"""An element of the golden and of the result in the reason of a verdict; not a limit and a figure."""


def without_expectation(reason: str) -> str:
    """The reason of a verdict on an import: the framework has one of two numbers, and nobody knows which is right."""
    words = reason.replace("values are wrong", "values differ").replace("wrong by", "different by")
    return _ELEMENT.sub(r"the framework has \2, the import \1", words)


def judged_by_runtime(check: ImportCheck, row: OpRow, folder: Path, second: Path) -> ImportCheck:
    """A check that found a difference, by the results in `second` that ONNX Runtime has of the same graph."""
    document, values = own_results.read(second)
    if document["not_run"]:
        return check.model_copy(update={"error": f"{check.error} (no second authority: {document['not_run']})"})
    if first_wrong(values, row_golden(row, folder), row.outputs)[1]:
        return check.model_copy(update={"error": f"{check.error} ({document['by']} contradicts the import too)"})
    return _in_doubt(check, f"{document['by']} computes what the import does, {check.held_to} something else")


def _in_doubt(check: ImportCheck, why: str) -> ImportCheck:
    text = f"{DOUBT}{why}: {check.error}"
    return check.model_copy(update={"status": ImportStatus.NOT_CHECKED, "output": None, "error": text, "node": ""})


def judged(
    check: ImportCheck, expected: Sequence[np.ndarray], row: OpRow, folder: Path, cache_dir: Path
) -> ImportCheck:
    """A check that found a difference, by what a second authority computes of the model as a whole (`row`).

    `expected` are the framework's results.
    """
    answer = ask(row, folder, cache_dir)
    if answer.refusal:
        return check.model_copy(update={"error": f"{check.error} ({answer.none})"})
    own = first_wrong(row_golden(row, folder), answer.values, row.outputs)[1]
    if not own:
        return check.model_copy(update={"error": f"{check.error} ({answer.by} computes of the import what XLA does)"})
    others = first_wrong(expected, answer.values, row.outputs)[1]
    sides = (
        f"{answer.by} does not agree with {check.held_to} either"
        if others
        else f"{answer.by} agrees with {check.held_to}"
    )
    return _in_doubt(check, f"XLA computes something else of the import than {answer.by}; {sides}")
