"""What a lane stores of an op that failed: its IR after each stage, which the failure may be seen in.

    RUN/artifacts/<op id>/ir-<backend>/    the folder of --keep-ir

Printing IR takes as long as compiling a small op, so it is not printed while ops climb. A backend that is quick and
gives the same again (`cheap_ir`) compiles the op once more instead; one whose compiler writes it anyway has it already
(`Job.kept_ir`). This never changes a verdict or its times.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.backends.base import Backend, Job
from opscope.harness.record import artifacts
from opscope.harness.record.optest import RunContext, backend_label
from opscope.harness.record.records import WHOLE_MODEL, OpRow
from opscope.harness.record.stages import Stage

MOST_SECONDS = 2.0
"""An op whose climb took longer is not compiled again."""


def leave(row: OpRow, job: Job, backend: Backend, stages: Sequence[Stage], context: RunContext, seconds: float) -> None:
    """Stores the IR of a failed op after each of `stages`, if that is cheap; `seconds` is what its climb took."""
    if context.keep_ir or row.op_name == WHOLE_MODEL:
        return
    if job.kept_ir is not None:
        with contextlib.suppress(OSError):
            _store(row, context, job.kept_ir)
        return
    if not backend.cheap_ir or seconds > MOST_SECONDS:
        return
    with contextlib.suppress(OSError), TemporaryFolder("ir") as scratch:
        again = replace(job, inputs=[], ir_dir=Path(scratch), state={}, input_descs=[], output_descs=[], watch=None)
        with contextlib.suppress(Exception):  # the failure itself, which has been recorded
            for stage in stages:
                if stage is not Stage.RUN:
                    backend.climb(stage, again)
        _store(row, context, Path(scratch))


def _store(row: OpRow, context: RunContext, source: Path) -> None:
    """Stores the files of a folder as the op's IR. Raises OSError."""
    folder = artifacts.ir_folder(backend_label(context.backend))
    for path in sorted(source.iterdir()):
        artifacts.write(context.run_dir, row.op_id, f"{folder}/{path.name}", path.read_bytes())
