"""Planned programs: checks the plan before a run, and computes results as the planned cores do.

A core computes, for each piece in time, one rectangle of each matrix of its op's result, from the parts of the operands
that the network sends it. The choice of the core never changes a bit, which `run(per_core=True)` tests.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from opscope.compiler.target.allocation import Banks, Buffer, map_of
from opscope.compiler.target.interpret import HostProgramError, check_program
from opscope.compiler.target.plan import PIPE_RESERVE, PlacedOp, Plan
from opscope.compiler.target.program import (
    Binary,
    EltwiseParams,
    MatmulParams,
    Program,
    ReduceParams,
    SparseMatmulParams,
)
from opscope.compiler.target.system_desc import SystemDesc, also_harvested
from opscope.simulator.errors import BadBinary, OutOfMemory
from opscope.simulator.kernels.buda import depthwise_columns, picked_rows
from opscope.simulator.kernels.registry import Call, Images, Kernel
from opscope.simulator.per_core import Rectangle, operand_parts

CUT = (EltwiseParams, MatmulParams, ReduceParams, SparseMatmulParams)
"""Parameters of kernels that cores compute in parts; others move elements, and are done at once."""


def check_plan(binary: Binary, system: SystemDesc) -> None:
    """Checks a plan. Raises BadBinary if no chip can execute it, OutOfMemory if a core's buffers do not fit."""
    plan, program = binary.plan, binary.programs[0]
    grids = chip_grids(binary, system)
    check_programs(plan)
    if plan.pipe_reserve > PIPE_RESERVE:
        raise BadBinary(f"plan: expected at most {PIPE_RESERVE} bytes reserved for pipes, got {plan.pipe_reserve}")
    taken: dict[tuple[int, int, int, int], str] = {}
    where = planned_operations(plan)
    waiting = {queue.source for queue in plan.queues}
    epochs = {(epoch.number, epoch.chip) for epoch in plan.epochs}
    for op in plan.ops:
        known = all(0 <= number < len(program.operations) for number in (*op.steps, op.operation))
        if not known or (op.epoch, op.chip) not in epochs:
            raise BadBinary(f"plan: expected {op.name} to name an operation and an epoch of the program, got neither")
        rows, cols = grids[op.chip]
        for row, col in op.cores():
            key = (op.epoch, op.chip, row, col)
            if not (0 <= row < rows and 0 <= col < cols):
                raise BadBinary(f"plan: expected {op.name} on the {rows}x{cols} cores of a chip, got ({row}, {col})")
            if key in taken:
                raise BadBinary(f"plan: expected one op on core ({row}, {col}), got {taken[key]} and {op.name}")
            taken[key] = op.name
        allocate(op, system, plan.pipe_reserve)
    maker_of_tensor = {tensor: i for i, op in enumerate(program.operations) for tensor in op.outputs}
    for op in plan.ops:
        for producer in (p for n in (*op.steps, op.operation) for p in _producers(program, where, maker_of_tensor, n)):
            # What another chip computes at the same time comes over Ethernet; on one chip epochs follow each other.
            if producer.chip == op.chip and producer.epoch != op.epoch and producer.name not in waiting:
                raise BadBinary(f"plan: expected a queue between {producer.name} and {op.name}, got none")
            if producer.epoch > op.epoch:
                raise BadBinary(f"plan: expected {producer.name} not after {op.name}, got epoch {producer.epoch}")


def chip_grids(binary: Binary, system: SystemDesc) -> dict[int, tuple[int, int]]:
    """Chip of the plan -> rows and columns of its cores that are not switched off.

    Raises BadBinary if the plan uses a chip that it was not made for, or masks do not go with the chips.
    """
    used = {item.chip for item in (*binary.plan.epochs, *binary.plan.ops, *binary.plan.queues)}
    chips = binary.chip_ids or tuple(sorted(used))
    masks = binary.harvested or (0,) * len(chips)
    if len(set(chips)) < len(chips) or any(chip < 0 for chip in chips) or len(masks) != len(chips):
        raise BadBinary(f"plan: expected chips that differ and a mask for each, got {chips} and {masks}")
    if strangers := used - set(chips):
        raise BadBinary(f"plan: expected chips of {list(chips)}, got {min(strangers)}; try to compile again")
    try:
        return {chip: also_harvested(system, mask).buda.grid for chip, mask in zip(chips, masks, strict=True)}
    except ValueError as error:
        raise BadBinary(f"plan: {error}") from error


def check_programs(plan: Plan) -> None:
    """Checks a plan's programs. Raises BadBinary if one names what is not there, or has a loop without an end."""
    graphs, queues = {epoch.graph for epoch in plan.epochs}, {queue.name for queue in plan.queues}
    names = [program.name for program in plan.programs]
    if len(set(names)) < len(names):
        raise BadBinary(f"plan: expected programs with different names, got {names}")
    for program in plan.programs:
        try:
            check_program(program)
        except HostProgramError as error:
            raise BadBinary(f"plan: {error}") from error
        for line in program.instructions:
            if line.code == "execute" and line.graph not in graphs:
                raise BadBinary(f"plan: expected {program.name} to execute a graph, got {line.graph!r}")
            named = [settings.queue for settings in line.settings]
            named += line.names if line.code in ("allocate_queue", "deallocate_queue") else []
            if strangers := set(named) - queues:
                raise BadBinary(f"plan: expected {program.name} to name queues, got {min(strangers)!r}")


def planned_operations(plan: Plan) -> dict[int, PlacedOp]:
    """Operation of the entry -> the planned op that computes it; a fused op computes one per step."""
    return {number: op for op in plan.ops for number in (*op.steps, op.operation)}


def allocate(op: PlacedOp, system: SystemDesc, pipe_reserve: int = PIPE_RESERVE) -> tuple[int, ...]:
    """Address in L1 of each of an op's buffers. Raises OutOfMemory if they do not fit beside firmware and pipes."""
    profile = system.buda
    base = profile.l1_unreserved_base - PIPE_RESERVE + pipe_reserve
    address, allocations = base, []
    for buffer in op.buffers:
        allocations.append(address)
        address += -(-buffer.bytes // profile.l1_alignment) * profile.l1_alignment
    if address > profile.l1_bytes:
        where, regions = f"plan: {op.name}", (("firmware and pipes", base),)
        profile = dataclasses.replace(profile, l1_unreserved_base=base, l1_regions=regions)
        banks = Banks("l1", profile.l1_usable)
        banks.buffers += [
            Buffer(at - base, np.array([b.bytes]), f"{b.role} {b.operand}, {b.data_format}, {b.tiles} tiles", where)
            for at, b in zip(allocations, op.buffers, strict=True)
        ]
        wanted = np.array([address - base])
        raise OutOfMemory(where, map_of(banks, profile, wanted, "all its buffers", where), profile.l1_usable)
    return tuple(allocations)


def _producers(
    program: Program, where: dict[int, PlacedOp], maker_of_tensor: dict[int, int], operation: int
) -> Iterator[PlacedOp]:
    """The planned ops whose results an operation reads, even if the network moves elements on the way."""
    left = [(tensor, operation) for tensor in program.operations[operation].inputs]
    while left:
        tensor, reader = left.pop()
        maker = maker_of_tensor.get(tensor)
        if maker is None or maker >= reader:  # made later, which a run refuses
            continue
        if maker in where:
            yield where[maker]
        else:
            left += [(tensor, maker) for tensor in program.operations[maker].inputs]


def rectangles(op: PlacedOp, shape: tuple[int, ...]) -> Iterator[Rectangle]:
    """The part of a result (z, rows, columns) that each core computes, piece after piece, rows of cores first.

    `shape` is that of the op, or of a step of a fused op, which may have larger blocks than the op: a step that is
    reduced later.
    """
    z, rows, cols = shape
    height = _share(rows, op.block.mblock_m * op.block.ublock_rt, op.stream[0] * op.grid[0])
    width = _share(cols, op.block.mblock_n * op.block.ublock_ct, op.stream[1] * op.grid[1])
    pieces = itertools.product(range(op.stream[0]), range(op.stream[1]), range(op.grid[0]), range(op.grid[1]), range(z))
    for tr, tc, r, c, matrix in pieces:
        top, left = (tr * op.grid[0] + r) * height, (tc * op.grid[1] + c) * width
        if top < rows and left < cols:
            yield (
                slice(matrix, matrix + 1),
                slice(top, min(top + height, rows)),
                slice(left, min(left + width, cols)),
            )


def _share(elements: int, tiles: int, parts: int) -> int:
    """Elements along one side that each of `parts` computes: the op's `tiles`, or more if these leave some over."""
    return max(tiles, -(-elements // (32 * parts))) * 32


def run_placed(kernel: Kernel, images: Images, call: Call, op: PlacedOp) -> np.ndarray | Images:
    """Returns the kernel's result, computed as the planned cores do; what the network moves, at once."""
    desc = call.outputs[0]
    if not isinstance(call.params, CUT):
        return kernel.function(images, call)
    result: np.ndarray | None = None
    rows = picked_rows(call.params) if isinstance(call.params, SparseMatmulParams) else None
    for out in rectangles(op, desc.shape):
        value = _gathered(images[0], rows, out) if rows is not None else _computed(kernel, images, call, out)
        if result is None:
            result = np.zeros(desc.shape, value.dtype)
        result[out] = value
    return result if result is not None else kernel.function(images, call)


def _gathered(image: np.ndarray, rows: np.ndarray, out: Rectangle) -> np.ndarray:
    row = rows[out[1]]
    return np.where((row >= 0)[:, None], image[:, np.maximum(row, 0), out[2]], np.float32(0))


def _computed(kernel: Kernel, images: Images, call: Call, out: Rectangle) -> np.ndarray:
    parts = operand_parts(call, out)
    if kernel.name == "depthwise" and parts is not None:
        columns = depthwise_columns(images[0].shape[2], images[1].shape[1] // 32, out[2])
        parts[0] = (*parts[0][:2], columns)  # type: ignore[assignment]
    assert parts is not None, "matmul, reduce and elementwise kernels can be cut"
    pieces = [image[part] for image, part in zip(images, parts, strict=True)]
    descs = [dataclasses.replace(d, shape=p.shape) for d, p in zip(call.inputs, pieces, strict=True)]
    shape = tuple(part.stop - part.start for part in out)
    own = dataclasses.replace(call.outputs[0], shape=shape)
    return np.asarray(kernel.function(pieces, dataclasses.replace(call, inputs=tuple(descs), outputs=(own,))))
