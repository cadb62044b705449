"""Turns a netlist into the binary that a device runs: its graph as the program, its places as the plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from opscope.compiler.buda.graph import BudaGraph, NodeKind, OpSpec, Slices, TensorShape, Tm
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand, reduced_elements
from opscope.compiler.buda.graph_to_program import GraphProgram, to_program
from opscope.compiler.buda.netlist.attributes import check_attributes, kind_of, scalar_of
from opscope.compiler.buda.netlist.check import check, check_board, core_buffers, programs_in_order, updated_rams
from opscope.compiler.buda.netlist.emit import KINDS as NAMES
from opscope.compiler.buda.netlist.fused import steps_of
from opscope.compiler.buda.netlist.interpret import executions, host_program
from opscope.compiler.buda.netlist.model import HOST, Graph, Netlist, Op, Queue
from opscope.compiler.buda.netlist.options import check_operands, options_of, spliced_tiles
from opscope.compiler.buda.plan_to_binary import PlannedProgram
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.formats import TILE, number_format
from opscope.compiler.target.plan import PIPE_RESERVE, Allocation, BlockPlan, EpochPlan, PlacedOp, Plan, QueuePlan
from opscope.compiler.target.program import Binary
from opscope.compiler.target.system_desc import SystemDesc, harvested, load_board

KINDS = {short: kind for kind, short in NAMES.items()}


def to_binary(netlist: Netlist, board: str = "", parameters: dict[str, int] | None = None) -> PlannedProgram:
    """Returns the binary of a checked netlist. Raises CompilerInputError.

    It is for `board`, or for its arch's default one; where that has too few rows of cores, for one with all rows.
    """
    check(netlist)
    system = load_board(board) if board else _board_for(netlist)
    if system.arch != netlist.arch:
        raise CompilerInputError(f"board: expected one with {netlist.arch}, got {system.board} with {system.arch}")
    check_board(netlist, system)
    graph = graph_of(netlist)
    program = to_program(graph, {op.name: int(op.attributes.get("u_kt", 0)) for op in netlist.ops.values()})
    order = {name: i for i, name in enumerate(_executed(netlist, parameters))}
    graphs = sorted((g for g in netlist.graphs if g.name in order), key=lambda g: order[g.name])
    plan = Plan(
        netlist.name,
        "netlist",
        tuple(_epoch(g, order[g.name]) for g in graphs),
        tuple(_placed(netlist, g, op, order[g.name], program, graph) for g in graphs for op in g.ops),
        tuple(_queue_plan(queue, program) for queue in netlist.queues.values()),
        _pipe_reserve(netlist, system),
        tuple(map(host_program, programs_in_order(netlist))),
    )
    return PlannedProgram(program, Binary(system.board, system.arch, (program.program,), "opscope netlist", plan))


def _board_for(netlist: Netlist) -> SystemDesc:
    default = load_board(netlist.arch)
    try:
        check_board(netlist, default)
    except CompilerInputError:
        return harvested(default, 0)
    return default


def with_programs(planned: PlannedProgram, netlist: Netlist) -> PlannedProgram:
    """Returns a plan's binary with the programs of its netlist, and the names of its graphs.

    The netlist has a graph per epoch, in their order.
    """
    plan = planned.binary.plan
    epochs = tuple(
        replace(epoch, graph=graph.name, input_count=graph.input_count)
        for epoch, graph in zip(plan.epochs, netlist.graphs, strict=True)
    )
    plan = replace(plan, epochs=epochs, programs=tuple(map(host_program, netlist.programs)))
    return replace(planned, binary=replace(planned.binary, plan=plan))


def _epoch(graph: Graph, number: int) -> EpochPlan:
    return EpochPlan(number, graph.target_device, KINDS.get(graph.name[:3], "forward"), graph.name, graph.input_count)


def _pipe_reserve(netlist: Netlist, system: SystemDesc) -> int:
    """Returns how much of the planner's reserve for pipes the netlist's ops leave free, in bytes."""
    room = PIPE_RESERVE + system.buda.l1_usable
    free = (room - sum(b.bytes for b in core_buffers(netlist, g, op)) for g in netlist.graphs for op in g.ops)
    return min((PIPE_RESERVE, *free))


def _executed(netlist: Netlist, parameters: dict[str, int] | None) -> dict[str, None]:
    """Returns the graphs that a program executes, in order of first execution; all graphs if there is no program."""
    steps = (step.graph for program in programs_in_order(netlist) for step in executions(program, parameters))
    return dict.fromkeys(steps) or dict.fromkeys(graph.name for graph in netlist.graphs)


def graph_of(netlist: Netlist) -> BudaGraph:
    """Returns the graph that a netlist describes. Raises CompilerInputError if shapes do not fit together."""
    builder = GraphBuilder(netlist.name)
    outputs, updated = [], updated_rams(netlist)
    pickers = {
        op.inputs[0]: spec_of(netlist, op).pattern
        for op in netlist.ops.values()
        if op.attributes.get("identity") and {"windows", "rows"} & op.attributes.keys()
    }
    for queue in netlist.queues.values():
        if queue.name in pickers:
            shape = TensorShape(1, 1, pickers[queue.name].rows, pickers[queue.name].cols)
            builder.source(queue.name, NodeKind.CONSTANT, shape, queue.df)
        elif queue.input == HOST or queue.name in updated:
            kind = NodeKind.PARAMETER if queue.type == "ram" else NodeKind.INPUT
            builder.source(queue.name, kind, _queue_shape(queue), queue.df, elements_of_queue(queue))
        if queue.name in updated or _is_output(netlist, queue):
            outputs.append(queue)
    for op in _producers_first(netlist, updated):
        operands = [_operand(netlist, name, op.tms.get(i, ()), updated) for i, name in enumerate(op.inputs)]
        check_operands(op)
        spec = spec_of(netlist, op)
        if op.type == "splice" and spec.slices is None and not spec.stacked:
            shapes = [builder.shape(operand) for operand in operands]
            spec = replace(spec, options=replace(spec.options, tiles=spliced_tiles(op, shapes)))
        builder.op(op.name, spec, operands, op.out_df, _shape(op), elements_of(op))
    for queue in outputs:
        tms = tuple(Tm.parse(tm) for tm in queue.input_tms)
        if queue.tile_dim != (TILE, TILE):
            tms = (*tms, Tm("crop", rt=queue.tile_dim[0], ct=queue.tile_dim[1]))
        name = _written(queue) if queue.name in updated else queue.name
        builder.output(name, Operand(queue.input, tms), elements_of_queue(queue))
    return builder.graph()


def _written(queue: Queue) -> str:
    """The name of what an op writes to a ram that is read before."""
    return f"{queue.name} (written)"


def _operand(netlist: Netlist, name: str, tms: tuple[str, ...], updated: frozenset[str]) -> Operand:
    """Returns what an op reads: behind the TMs of the queue that it comes from, in whole 32x32 tiles."""
    queue = netlist.queues.get(name)
    before: tuple[Tm, ...] = ()
    if queue is not None:
        before = tuple(Tm.parse(tm) for tm in queue.input_tms)
        if queue.input == HOST and queue.tile_dim != (TILE, TILE):
            before = (Tm("expand", rt=queue.tile_dim[0], ct=queue.tile_dim[1]), *before)
    return Operand(_producer(netlist, name, updated), (*before, *(Tm.parse(tm) for tm in tms)))


def _is_output(netlist: Netlist, queue: Queue) -> bool:
    """Whether an op writes the queue for the host, and no other op reads it."""
    return queue.input != HOST and not any(queue.name in op.inputs for op in netlist.ops.values())


def _producer(netlist: Netlist, name: str, updated: frozenset[str]) -> str:
    """Returns the op or source that makes an input; for a queue between graphs, the op that writes the queue."""
    queue = netlist.queues.get(name)
    return name if queue is None or queue.input == HOST or name in updated else queue.input


def _producers_first(netlist: Netlist, updated: frozenset[str]) -> Iterator[Op]:
    ops = netlist.ops
    reads = {op.name: [_producer(netlist, name, updated) for name in op.inputs] for op in ops.values()}
    sorter = TopologicalSorter({name: [read for read in all_read if read in ops] for name, all_read in reads.items()})
    try:
        yield from (ops[name] for name in sorter.static_order())
    except CycleError as error:
        raise CompilerInputError(
            f"graphs: expected ops that do not wait for each other, got {error.args[1]}"
        ) from error


def _queue_shape(queue: Queue) -> TensorShape:
    rows, cols = (queue.grid_size[a] * queue.mblock[a] * queue.ublock[a] for a in range(2))
    return TensorShape(1, queue.t, rows, cols)


def elements_of_queue(queue: Queue) -> tuple[int, int, int] | None:
    """Returns the elements of a queue's entry if they do not fill 32x32 tiles; None if they do."""
    return queue.elements or _in_tiles(_queue_shape(queue), queue.tile_dim)


def elements_of(op: Op) -> tuple[int, int, int] | None:
    """Returns the elements of an op's result if they do not fill 32x32 tiles.

    A maximum along rows or columns leaves one row or column of each tile.
    """
    if elements := op.attributes.get("elements"):
        z, rows, cols = elements
        return z, rows, cols
    shape, dim = _shape(op), op.attributes.get("dim")
    if op.type != "reduce" or dim not in ("r", "c"):
        return None
    if (tiles := shape.rt if dim == "r" else shape.ct) != 1:
        raise CompilerInputError(f"{op.name}: expected a result of one tile along {dim}, which is reduced, got {tiles}")
    return reduced_elements(OpSpec("reduce", reduce_dim=dim), shape)


def _in_tiles(shape: TensorShape, tile: tuple[int, int]) -> tuple[int, int, int] | None:
    """Returns the elements of tiles of another size than 32x32; None for that one."""
    return None if tile == (TILE, TILE) else (shape.z, shape.rt * tile[0], shape.ct * tile[1])


def _stream(op: Op) -> tuple[str, tuple[int, int]]:
    row = op.attributes.get("t_stream")
    if row is None:
        return "R", (1, 1)
    r, c = row["factor"]
    return str(row["dir"]), (int(r), int(c))


def _shape(op: Op) -> TensorShape:
    _, (tr, tc) = _stream(op)
    if op.t % (tr * tc):
        raise CompilerInputError(f"{op.name}: expected a t of {tr}x{tc} pieces, got {op.t}")
    rows = op.grid_size[0] * tr * op.mblock[0] * op.ublock[0]
    return TensorShape(1, op.t // (tr * tc), rows, op.grid_size[1] * tc * op.mblock[1] * op.ublock[1])


def spec_of(netlist: Netlist, op: Op) -> OpSpec:
    """Returns what an op of a netlist computes, as the planner describes it. Raises CompilerInputError."""
    attributes: dict[str, Any] = dict(op.attributes)
    check_attributes(op.name, op.type, attributes)
    spec = OpSpec(
        kind_of(op.type),
        op.math_fidelity,
        op.acc_df,
        "" if op.intermed_df == op.out_df else op.intermed_df,
        approximate=bool(attributes.get("approximate_mode")),
        relu=bool(attributes.get("relu_en")),
        vector=str(attributes.get("vector", "")),
        l1_acc=bool(attributes.get("l1_acc")),
        scalar=scalar_of(op.name, op.type, attributes),
        options=options_of(netlist, op),
    )
    if op.type == "fused_op":
        return replace(spec, fused=steps_of(netlist, op, spec))
    try:
        if op.type == "reduce":
            return replace(spec, reduce_dim=attributes["dim"], reduce_type=attributes.get("type", "sum"))
        if op.type == "matmul" and spec.options.encoding is not None:
            return replace(spec, type="encoded_matmul")
        if op.type == "matmul" and attributes.get("identity") and "rows" in attributes:
            picked = attributes["rows"]
            runs = tuple(int(n) for n in picked["runs"])
            pattern = SparsePattern.of_runs(runs, int(picked["of"]), int(picked["taps"]))
            return replace(spec, type="sparse_matmul", sparse=pattern)
        if op.type == "matmul" and attributes.get("identity"):
            w = attributes["windows"]
            (top, bottom), (left, right) = w["padding"]
            pattern = SparsePattern.of_convolution(
                tuple(w["size"]),
                tuple(w["kernel"]),
                tuple(w["stride"]),
                ((top, bottom), (left, right)),
                tuple(w["dilation"]),
            )
            return replace(spec, type="sparse_matmul", sparse=pattern)
        if op.type == "matmul" and attributes.get("sfpu_op") == "gelu":
            return replace(spec, activation="gelu")
        if op.type == "splice" and "stacked" in attributes:
            return replace(spec, stacked=str(attributes["stacked"]))
        if op.type == "splice" and "slices" in attributes:
            taken = attributes["slices"]
            return replace(spec, slices=Slices(*(tuple(taken[key]) for key in ("dims", "begins", "ends", "steps"))))
    except (KeyError, TypeError, ValueError) as error:
        raise CompilerInputError(f"{op.name}.attributes: expected those of a {op.type}, got {error!r}") from error
    return spec


def _placed(netlist: Netlist, graph: Graph, op: Op, epoch: int, program: GraphProgram, whole: BudaGraph) -> PlacedOp:
    direction, factor = _stream(op)
    *steps, operation = program.operations_of(whole.node(op.name))
    return PlacedOp(
        op.name,
        operation,
        epoch,
        graph.target_device,
        *op.grid_loc,
        op.grid_size,
        op.grid_transpose,
        direction,
        factor,
        BlockPlan(op.t, *op.mblock, *op.ublock),
        int(op.attributes.get("m_k", 1)),
        int(op.attributes.get("u_kt", 1)),
        op.ublock_order,
        core_buffers(netlist, graph, op),
        tuple(steps),
        bool(op.attributes.get("l1_acc")),
    )


def _queue_plan(queue: Queue, program: GraphProgram) -> QueuePlan:
    node = queue.name if queue.name in program.tensor else queue.input
    return QueuePlan(
        queue.name,
        program.tensor.get(node, -1),
        queue.input,
        queue.type,
        queue.entries,
        queue.grid_size,
        BlockPlan(queue.t, *queue.mblock, *queue.ublock),
        queue.df,
        queue.loc,
        queue.target_device,
        tuple(Allocation(*part) for part in queue.addresses),
        queue.tiles * number_format(queue.df).buda_tile_bytes,
        program.tensor.get(_written(queue), -1),
    )
