"""What a lane stores of a wrong result: its explanation, and what the device gave.

    RUN/artifacts/<op id>/compare-<backend>/    (harness/record/explanation.py says which files)

An explanation never changes a verdict. Where the disk refuses it or it fails, the record has its reason all the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from opscope.base.stored import checked
from opscope.harness.backends.base import Job, Target
from opscope.harness.cache import export_folder
from opscope.harness.prepare.inputs import row_golden, row_inputs, row_term_sizes
from opscope.harness.record import artifacts, explanation
from opscope.harness.record.optest import RunContext, backend_label
from opscope.harness.record.records import WHOLE_MODEL, OpRow, ResultCheck
from opscope.harness.record.stages import Stage
from opscope.harness.record.store import artifact_dir
from opscope.harness.verdict.operands import Operands

__all__ = ["MEANING", "explained", "operands_of"]

MEANING = ".stablehlo.mlir"
"""Suffix of the file that holds the StableHLO form of a module that is on another level."""


def explained(
    row: OpRow, job: Job, context: RunContext, target: Target, checks: Sequence[ResultCheck], export_dir: Path
) -> tuple[str | None, str]:
    """Stores the explanation of an op's wrong results.

    Returns the place of its text in the run folder, None if it could not be stored, and the hypothesis that fits.
    """
    from opscope.harness.explain.element_errors import Judged
    from opscope.harness.explain.explain import explain, store

    backend = backend_label(context.backend)
    try:
        judged = Judged(
            row.held_to or row.op_name,
            target,
            row.inputs,
            row.outputs,
            row.op_params,
            row_golden(row, export_dir),
            job.outputs,
            None if row.holds else operands_of(row, job, export_dir),
        )
        known = explain(judged, checks, op_id=row.op_id, backend=backend)
        folder = explanation.folder_name(backend)
        text = store(
            known, job.outputs, lambda name, data: artifacts.write(context.run_dir, row.op_id, f"{folder}/{name}", data)
        )
    except (OSError, ValueError, MemoryError):
        return None, ""
    if text is not None:
        with contextlib.suppress(OSError):  # the reasons alone, which were there in case this ends the child
            (artifact_dir(Path(context.run_dir), row.op_id) / artifacts.named(Stage.COMPARE, backend)).unlink()
    return text, known.hypothesis


def operands_of(row: OpRow, job: Job, export_dir: Path) -> Operands | None:
    """The op's operands, by whose size its error is measured; None if no StableHLO module says what it does."""
    module = job.module
    if row.level != "stablehlo":
        stablehlo = Path(str(row.module)).with_suffix(MEANING).as_posix()
        if not (export_dir / stablehlo).is_file():
            return None
        module = checked(export_dir, stablehlo).read_bytes()
    if row.op_name == WHOLE_MODEL:
        return None
    kept = (lambda: row_term_sizes(row, export_dir)) if row.term_sizes else None
    return Operands(
        row.held_to or row.op_name,
        module,
        lambda: row_inputs(row, export_dir),
        row.op_params.get("body"),
        kept,
        export_folder.cache_dir,
    )
