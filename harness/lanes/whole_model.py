"""Compares the values inside a model that runs as one program in a lane."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.stored import checked
from opscope.harness.backends.base import Job, Target
from opscope.harness.cache import export_folder
from opscope.harness.record import artifacts
from opscope.harness.record.optest import RunContext, backend_label
from opscope.harness.record.records import OpRow, StageTime
from opscope.harness.record.stages import Stage

if TYPE_CHECKING:
    from opscope.harness.verdict.intermediates import Watch


def tagged(module: bytes) -> bytes:
    """The module with each op's path as its location's name (harness/prepare/mlir/tagged.py)."""
    from opscope.harness.prepare.mlir.tagged import tagged as with_paths

    return with_paths(module)


def watch(row: OpRow, export_dir: Path, job: Job, target: Target) -> Watch:
    """A watch that compares the values inside the model; `job` holds the model's inputs."""
    from opscope.harness.prepare.dead_ops import without_dead_ops
    from opscope.harness.prepare.split import split_module
    from opscope.harness.verdict.intermediates import Watch

    # Without the paths, so that the values are named by the exporter's locations.
    split = split_module(checked(export_dir, str(row.module)).read_bytes(), row.uses[0].model)
    return Watch(without_dead_ops(split), job.inputs, target, export_folder.cache_dir(None))


def value_fields(watch: Watch, row: OpRow, context: RunContext) -> dict[str, Any]:
    """Returns the fields of a model's record about its values. Writes the values as its artifact and ends the watch."""
    watch.close()
    if not watch.intermediates:
        return {}
    name = artifacts.named("intermediates", backend_label(context.backend), ".jsonl")
    artifact = artifacts.write(context.run_dir, row.op_id, name, watch.lines().encode())
    fields: dict[str, Any] = {"intermediates": len(watch.intermediates), "jump": watch.first_jump()}
    return fields if artifact is None else fields | {"artifact": artifact}


def times_without_comparing(watch: Watch, times: Sequence[StageTime]) -> list[StageTime]:
    """The times of the stages, with the time spent comparing inside `run` counted as `compare`."""
    moved = {Stage.RUN: -watch.seconds, Stage.COMPARE: watch.seconds}
    return [time.model_copy(update={"seconds": max(0.0, time.seconds + moved.get(time.stage, 0.0))}) for time in times]
