"""Turns a plan into the form that a device executes: cores, blocks and buffers of ops, places of queues in DRAM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Grid, StreamFactor, UBlock
from opscope.compiler.buda.configuration import Configuration
from opscope.compiler.buda.graph import BudaGraph, Node, NodeKind
from opscope.compiler.buda.graph_to_program import GraphProgram, to_program
from opscope.compiler.buda.placer.dram import Request, place_queues
from opscope.compiler.buda.placer.epochs import Placement
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.target.formats import number_format
from opscope.compiler.target.plan import Allocation, BlockPlan, CoreBuffer, EpochPlan, PlacedOp, Plan, QueuePlan
from opscope.compiler.target.program import Binary
from opscope.compiler.target.system_desc import SystemDesc

WHOLE = Grid(1, 1)
"""The grid of a queue in one part, as the host sees it."""
HOST_ENTRIES = 2
"""Microbatches in a queue that the host fills or empties: one is in use while the other is written."""


@dataclass(frozen=True)
class PlannedProgram:
    """A program with its plan."""

    graph: GraphProgram
    binary: Binary


@dataclass(frozen=True)
class QueueOptions:
    """Where queues lie, and how much they hold."""

    dram: str = "ROUND_ROBIN"
    """TT-Buda's algorithm that places them in DRAM."""
    host_inputs: bool = True
    """Whether inputs wait in the host's memory, and not in DRAM."""
    host_outputs: bool = True
    microbatch: int = 1
    """Inputs at once: queues between host and card hold two times as many, those between epochs as many."""

    @classmethod
    def of(cls, config: Configuration, microbatch: int = 1) -> QueueOptions:
        """Those that TT-Buda's compile options ask for."""
        return cls(
            config.get("dram_placement_algorithm", "ROUND_ROBIN"),
            config.get("input_queues_on_host", True),
            config.get("output_queues_on_host", True),
            microbatch,
        )


def to_binary(
    planned: BudaPlan,
    board: SystemDesc,
    options: QueueOptions = QueueOptions(),
    *,
    harvested: tuple[int, ...] = (),
    chip_ids: tuple[int, ...] = (),
) -> PlannedProgram:
    """Returns the binary of a planned graph, for chips with these masks of harvested rows.

    It has no programs yet: those are the netlist's (`netlist.to_binary.with_programs`). Raises CompilerInputError if a
    kernel or space in DRAM is missing.
    """
    models = {name: choice.model for name, choice in planned.choices.items()}
    graph = planned.graph
    program = to_program(graph, {name: model.u_kt for name, model in models.items()})
    plan = Plan(
        graph.name,
        planned.policy,
        tuple(EpochPlan(e.number, e.chip, e.kind) for e in planned.epochs),
        tuple(placed_op(graph, models[p.op.name], p, program) for epoch in planned.epochs for p in epoch.placements),
        queues(planned, program, options),
    )
    masks = harvested if any(harvested) else ()
    binary = Binary(board.board, board.arch, (program.program,), "opscope", plan, masks, chip_ids)
    return PlannedProgram(program, binary)


def placed_op(graph: BudaGraph, model: OpModel, placement: Placement, program: GraphProgram) -> PlacedOp:
    """Returns one op of the plan."""
    *steps, operation = program.operations_of(graph.node(placement.op.name))
    return PlacedOp(
        placement.op.name,
        operation,
        placement.epoch,
        placement.chip,
        placement.row,
        placement.col,
        (model.grid.r, model.grid.c),
        placement.transposed,
        model.stream.dir,
        (model.stream.r, model.stream.c),
        block_plan(model.block),
        model.m_k,
        model.u_kt,
        graph.ublock_orders.get(placement.op.name, "r"),
        buffers(model),
        tuple(steps),
        model.spec.l1_acc,
    )


def block_plan(block: BlockShape) -> BlockPlan:
    """Describes a block shape as the binary does."""
    return BlockPlan(block.t, block.mblock_m, block.mblock_n, block.ublock.rt, block.ublock.ct)


def buffers(model: OpModel) -> tuple[CoreBuffer, ...]:
    """Returns the buffers of an op model in each core's L1."""
    out = model.output
    return (
        *(_core_buffer("input", i, buffer) for i, buffer in enumerate(model.inputs)),
        _core_buffer("output", 0, out, out.block_shape.t if model.spec.gradient else 1),
        *(_core_buffer("intermediate", i, buffer) for i, buffer in enumerate(model.intermediates)),
        *(_core_buffer("parameter", i, b, b.block_shape.t) for i, b in enumerate(model.parameters) if b is not None),
    )


def _core_buffer(role: str, operand: int, buffer: BufferModel, times: int = 1) -> CoreBuffer:
    tile = number_format(buffer.data_format).buda_tile_bytes
    return CoreBuffer(role, operand, buffer.data_format, buffer.l1_size_tiles * times, tile)


def queues(planned: BudaPlan, program: GraphProgram, options: QueueOptions) -> tuple[QueuePlan, ...]:
    """Returns the queues of inputs, parameters and outputs, and those between epochs or on cut edges."""
    graph, microbatch = planned.graph, options.microbatch
    models = {name: choice.model for name, choice in planned.choices.items()}
    placed = {p.op.name: p for epoch in planned.epochs for p in epoch.placements}
    cut = {edge.producer for edge in planned.cuts}
    plans: list[QueuePlan] = []
    requests: dict[int, list[Request]] = {}
    for node in graph.nodes:
        if node.kind is NodeKind.OUTPUT:
            (edge,) = graph.operands(node.name)
            where = "host" if options.host_outputs else "dram"
            chip = placed[edge.producer].chip if edge.producer in placed else planned.epochs[0].chip
            plans.append(_queue(node, edge.producer, program, microbatch, _Place(where, chip)))
            if not options.host_outputs:
                size = plans[-1].entry_bytes * plans[-1].entries
                requests.setdefault(chip, []).append(Request(node.name, size, ((0, 0),), True))
            continue
        readers = [placed[e.consumer] for e in graph.users(node.name) if e.consumer in placed]
        if not readers:
            continue
        last = max(p.epoch for p in readers)
        if node.kind is NodeKind.OP:
            placement = placed[node.name]
            leaves = any((p.epoch, p.chip) != (placement.epoch, placement.chip) for p in readers)
            if not leaves and node.name not in cut:
                continue
            model = models[node.name]
            block = None if model.grid == WHOLE else model.block
            queue = _queue(node, node.name, program, microbatch, _Place("dram", placement.chip, model.grid, block))
            request = Request(
                queue.name, queue.entry_bytes * microbatch, tuple(_cores(placement)), False, placement.epoch, last
            )
        else:
            first = readers[0]
            operand = next(e.operand for e in graph.users(node.name) if e.consumer == first.op.name)
            if node.kind.is_resident:
                grid, block = _read_as(node, models[first.op.name], operand)
                queue = _queue(node, "HOST", program, 0, _Place("dram", first.chip, grid, block))
            else:
                where = "host" if options.host_inputs else "dram"
                queue = _queue(node, "HOST", program, microbatch, _Place(where, first.chip))
            cores = tuple(_cores(first))[: queue.grid[0] * queue.grid[1]]
            request = Request(queue.name, queue.entry_bytes * queue.entries, cores, True, first.epoch, last)
        plans.append(queue)
        if queue.location == "dram":
            requests.setdefault(queue.chip, []).append(request)
    return tuple(_placed_queues(plans, requests, planned, options.dram))


def _placed_queues(
    plans: list[QueuePlan], requests: Mapping[int, list[Request]], planned: BudaPlan, dram: str
) -> list[QueuePlan]:
    allocations = {}
    for requests_of_chip in requests.values():
        allocations.update(place_queues(requests_of_chip, planned.budget, dram))
    address, done = 0, []
    for queue in plans:
        if queue.location == "host":
            done.append(replace(queue, allocations=(Allocation(0, address),)))
            address += queue.entry_bytes * queue.entries
        else:
            done.append(replace(queue, allocations=allocations[queue.name]))
    return done


@dataclass(frozen=True)
class _Place:
    """Where a queue lies: `host` or `dram`, its chip, and how its tensor is divided."""

    location: str
    chip: int
    grid: Grid = WHOLE
    block: BlockShape | None = None
    """None: that of the whole tensor."""


def _queue(node: Node, source: str, program: GraphProgram, microbatch: int, place: _Place) -> QueuePlan:
    """Returns a queue of so many inputs at once; of 0 inputs it is a ram, which stays."""
    grid, block = place.grid, place.block or _block(node, WHOLE)
    name = f"e2e_{node.name}_0" if node.kind is NodeKind.OP else node.name
    entry = block.t * block.tiles * node.tile_bytes
    entries = microbatch * (1 if node.kind is NodeKind.OP else HOST_ENTRIES) or 1
    return QueuePlan(
        name,
        program.tensor.get(node.name, -1),
        source,
        "queue" if microbatch else "ram",
        entries,
        (grid.r, grid.c),
        block_plan(block),
        node.data_format,
        place.location,
        place.chip,
        (),
        entry,
    )


def _read_as(node: Node, model: OpModel, operand: int) -> tuple[Grid, BlockShape]:
    """Returns the grid over which a queue lies, so that each core of its reader has a part if the shape divides so.

    For a picker, each row of cores has the different tiles of its share, once each.
    """
    wanted, shape = model.input_grid(operand), node.shape
    if model.spec.sparse is not None and operand == 0:
        return Grid(wanted.r, 1), model.inputs[0].block_shape
    grid = Grid(wanted.r if shape.rt % wanted.r == 0 else 1, wanted.c if shape.ct % wanted.c == 0 else 1)
    return grid, _block(node, grid)


def _block(node: Node, grid: Grid) -> BlockShape:
    """Returns the block of a queue over a grid: micro blocks of one tile."""
    return BlockShape.of(node.shape, grid, StreamFactor(), UBlock(1, 1))


def _cores(placement: Placement) -> list[tuple[int, int]]:
    return list(placement.cores())
