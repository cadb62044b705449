"""One op on the devices of a mesh: run for each set of operands or on all of them at once, judged device by device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from opscope.base.digest import words_digest
from opscope.base.stored import checked, digest
from opscope.harness.backends.base import Backend, Declined, Job, Target
from opscope.harness.cache import export_folder
from opscope.harness.lanes import explained
from opscope.harness.lanes.result_digests import with_digests
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.prepare.mesh.collectives import COLLECTIVES, Collective, folded
from opscope.harness.record.element_types import NUMPY_NAMES
from opscope.harness.record.records import OpRow, ResultCheck, Shard
from opscope.harness.record.stages import Stage
from opscope.harness.verdict.compare import compare_op
from opscope.harness.verdict.operands import NotEvaluatedError, Operands
from opscope.harness.verdict.overwritten_inputs import InputSnapshot

MOVES = "stablehlo.reshape"
"""The op whose tolerance holds where a collective only moves values."""


@dataclass
class OnDevices:
    """What the devices of one shard computed."""

    shard: Shard
    outputs: list[np.ndarray]
    overwritten: tuple[int, ...] = ()


def run(row: OpRow, job: Job, backend: Backend, export_dir: Path) -> list[OnDevices]:
    """Takes the job through stage `run` for each shard of the row, or once for all if its devices compute it together.

    Raises what the backend raises, Declined if it runs no op on several devices.
    """
    if row.devices > 1:
        return _run_together(row, job, backend, export_dir)
    done, state = [], dict(job.state)
    for shard in row.shards:
        job.state, job.outputs, job.devices = dict(state), [], shard.devices
        job.inputs = row_inputs(row.on(shard), export_dir)
        before = InputSnapshot(job.inputs)
        backend.climb(Stage.RUN, job)
        after = job.inputs if job.inputs_after is None else job.inputs_after
        done.append(OnDevices(shard, job.outputs, before.overwritten(after)))
        job.inputs, job.inputs_after = [], None
    return done


def _run_together(row: OpRow, job: Job, backend: Backend, export_dir: Path) -> list[OnDevices]:
    if not backend.runs_meshes:
        raise Declined(f"{row.devices} devices compute it together; this backend runs an op on one")
    job.mesh_inputs = [row_inputs(row.on(shard), export_dir) for shard in row.shards]
    before = [InputSnapshot(inputs) for inputs in job.mesh_inputs]
    job.devices = tuple(range(row.devices))
    backend.climb(Stage.RUN, job)
    overwritten = [old.overwritten(new) for old, new in zip(before, job.mesh_inputs, strict=True)]
    job.mesh_inputs = []
    return [
        OnDevices(shard, outputs, written)
        for shard, outputs, written in zip(row.shards, job.mesh_outputs, overwritten, strict=True)
    ]


def overwritten(done: Sequence[OnDevices]) -> tuple[int, ...]:
    """Positions of the inputs that the backend overwrote on any device."""
    return tuple(sorted({position for each in done for position in each.overwritten}))


def compared(row: OpRow, job: Job, done: Sequence[OnDevices], target: Target, export_dir: Path) -> list[ResultCheck]:
    """One check per result of each shard, in the order of the shards, with the first of its devices."""
    checks = []
    known: dict[str, list[list[np.ndarray]]] = {}
    joint = _collective(row, export_dir) if row.op_name in COLLECTIVES else None
    for each in done:
        own, device = row.on(each.shard), each.shard.devices[0]
        name = row.held_to
        if row.devices > 1 and joint is None:
            operands = _joint_operands(row, job, device, export_dir, known)
        else:
            operands = None if joint else explained.operands_of(own, job, export_dir)
        if joint is not None:
            name = joint.body or MOVES
            operands = _joined_operands(row, joint, device, export_dir)
        results = compare_op(row, row_golden(own, export_dir), each.outputs, target, operands, name)
        checks += [check.model_copy(update={"device": device}) for check in with_digests(results, each.outputs)]
    return checks


def reasons(checks: Sequence[ResultCheck], results: int) -> list[str]:
    """What is wrong with each result, in one line; with a mesh the device is named."""
    lines = []
    for index, check in enumerate(checks):
        if not check.passed and check.device is None:
            lines.append(f"result {index}: {check.reason}")
        elif not check.passed:
            lines.append(f"device {check.device}, result {index % max(results, 1)}: {check.reason}")
    return lines


def first_wrong(
    row: OpRow, job: Job, done: Sequence[OnDevices], checks: list[ResultCheck]
) -> tuple[OpRow, list[ResultCheck]]:
    """Row and checks of the first shard with a wrong result, else of the first. The job gets its outputs."""
    device = next((check.device for check in checks if not check.passed), done[0].shard.devices[0])
    each = next(each for each in done if each.shard.devices[0] == device)
    job.outputs = each.outputs
    return row.on(each.shard), [check for check in checks if check.device == device]


def _collective(row: OpRow, export_dir: Path) -> Collective:
    from opscope.harness.prepare.mlir.collective_groups import collective

    return collective(checked(export_dir, str(row.module)).read_bytes())


@dataclass
class JointOperands(Operands):
    """The operands of all devices, one device's after another's, of a loop or branch that holds a collective."""

    device: int = 0
    devices: int = 1
    known: dict[str, list[list[np.ndarray]]] = field(default_factory=dict)
    """Results of all devices by their inputs, which are the same whichever device is judged: a run takes seconds."""

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results of one device on other inputs of all. Raises NotEvaluatedError if XLA refuses."""
        from opscope.harness.prepare.golden import GoldenError
        from opscope.harness.prepare.mesh import host_devices

        each = len(inputs) // self.devices
        of_devices = [list(inputs[start : start + each]) for start in range(0, each * self.devices, each)]
        key = words_digest(*(digest(memoryview(array.tobytes())) for array in inputs))
        if key not in self.known:
            try:
                self.known[key] = host_devices.run(self.module, of_devices)
            except GoldenError as error:
                raise NotEvaluatedError(str(error)) from error
        return self.known[key][self.device]

    def run_with_denormals(self) -> list[np.ndarray]:
        """Not evaluated."""
        raise NotEvaluatedError("several devices compute it")


def _joint_operands(
    row: OpRow, job: Job, device: int, export_dir: Path, known: dict[str, list[list[np.ndarray]]]
) -> Operands:
    """The operands of a loop or a branch that several devices compute together, as one device's results follow."""

    def load() -> list[np.ndarray]:
        return [array for shard in row.shards for array in row_inputs(row.on(shard), export_dir)]

    return JointOperands(row.op_name, job.module, load, device=device, devices=row.devices, known=known)


def _joined_operands(row: OpRow, joint: Collective, device: int, export_dir: Path) -> Operands | None:
    """The operands of a reduction's last step on a device, by whose size its error is measured: all other parts joined,
    and the last. None where values are only moved."""
    if not joint.body:
        return None

    def load() -> list[np.ndarray]:
        arrays = [row_inputs(row.on(shard), export_dir)[0] for shard in row.shards]
        parts = joint.parts(device, arrays)
        return [folded(parts[:-1], joint.body), parts[-1]] if len(parts) > 1 else [parts[0], np.zeros_like(parts[0])]

    kind = f"tensor<{''.join(f'{size}x' for size in row.outputs[0].shape)}{row.outputs[0].data_type}>"
    assert row.outputs[0].data_type in NUMPY_NAMES
    module = (
        f"func.func @main(%a: {kind}, %b: {kind}) -> {kind} {{\n"
        f"  %0 = {joint.body} %a, %b : {kind}\n  return %0 : {kind}\n}}"
    )
    return Operands(joint.body, module.encode(), load, None, None, export_folder.cache_dir)
