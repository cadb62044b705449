"""Writes a plan as a netlist, and a netlist as YAML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.fused import OUTPUT, Fused, Step
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, OpSpec
from opscope.compiler.buda.netlist.model import HOST, FusedOp, Graph, Netlist, Op, Program, Queue, SubOp
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_to_binary import PlannedProgram
from opscope.compiler.target.formats import TILE
from opscope.compiler.target.plan import QueuePlan

MOST_COLUMNS = 2**31 - 1
"""Of a line of the file: as many as libyaml can count, which is never reached."""
KINDS = {"forward": "fwd", "backward": "bwd", "optimizer": "opt"}
"""Epoch type -> prefix of the names of its graphs."""


def netlist_of(planned: BudaPlan, program: PlannedProgram, microbatch: int = 1) -> Netlist:
    """Returns the netlist of a plan whose queues have been placed; one execution takes `microbatch` inputs."""
    graph, plan = planned.graph, program.binary.plan
    queues = {queue.name: _queue(queue, graph) for queue in plan.queues}
    waits = {queue.source: queue.name for queue in plan.queues if queue.name.startswith("e2e_")}
    where = {p.op.name: (epoch.number, epoch.chip) for epoch in planned.epochs for p in epoch.placements}
    cut = {(edge.producer, edge.consumer) for edge in planned.cuts}
    graphs: list[Graph] = []
    fused: dict[str, FusedOp] = {}
    for epoch in planned.epochs:
        ops = []
        for p in epoch.placements:
            node = graph.node(p.op.name)
            inputs = [
                waits[e.producer]
                if e.producer in waits and (where[e.producer] != where[node.name] or (e.producer, e.consumer) in cut)
                else e.producer
                for e in graph.operands(node.name)
            ]
            model = planned.choices[node.name].model
            number: int | None = None
            if node.spec.fused is not None:  # Equal fused ops are one entry of the file.
                row = fused_row(len(fused), node.spec.fused, model)
                number = fused.setdefault(_flow(_fused_row(row)), row).id
            ops.append(_op(graph, node, model, tuple(inputs), (p.row, p.col), p.transposed, number))
        graphs.append(Graph(graph_name(planned, epoch.number), epoch.chip, microbatch, tuple(ops)))
    return Netlist(
        planned.budget.arch,
        queues,
        tuple(graphs),
        _programs(queues, graphs, microbatch),
        graph.name,
        {row.id: row for row in fused.values()},
    )


def graph_name(planned: BudaPlan, number: int) -> str:
    """Returns TT-Buda's name for an epoch's graph; Wormhole's chips may share a temporal epoch."""
    kind = KINDS[planned.epochs[number].kind]
    tail = "" if planned.budget.arch == "grayskull" else f"_temporal_epoch_{number}"
    return f"{kind}_0_{number}{tail}"


def _queue(queue: QueuePlan, graph: BudaGraph) -> Queue:
    between = queue.name.removeprefix("e2e_").removesuffix("_0")
    node = graph.node(between if queue.source == between else queue.name)
    block = queue.block
    written = graph.operands(node.name) if node.kind is NodeKind.OUTPUT else ()
    tms = tuple(str(tm) for edge in written for tm in edge.tms)
    return Queue(
        queue.name,
        queue.source,
        queue.kind,
        queue.entries,
        queue.grid,
        block.t,
        (block.mblock_m, block.mblock_n),
        (block.ublock_rt, block.ublock_ct),
        queue.data_format,
        queue.chip,
        queue.location,
        tuple((a.channel, a.address) for a in queue.allocations),
        input_tms=tms,
        elements=node.elements,
    )


def _op(
    graph: BudaGraph,
    node: Node,
    model: OpModel,
    inputs: tuple[str, ...],
    start: tuple[int, int],
    turned: bool,
    fused: int | None,
) -> Op:
    spec, block, edges = node.spec, model.block, graph.operands(node.name)
    return Op(
        name=node.name,
        type="matmul" if spec.type == "sparse_matmul" else spec.type,
        grid_loc=start,
        grid_size=(model.grid.r, model.grid.c),
        inputs=inputs,
        t=block.t,
        mblock=(block.mblock_m, block.mblock_n),
        ublock=(block.ublock.rt, block.ublock.ct),
        in_df=tuple(graph.node(edge.producer).data_format for edge in edges),
        out_df=node.data_format,
        intermed_df=spec.intermediate_format or node.data_format,
        acc_df=spec.acc_format,
        math_fidelity=spec.math_fidelity,
        buf_size_mb=model.output.l1_size_tiles // block.tiles,
        ublock_order=graph.ublock_orders[node.name],
        input_buf_min_size_tiles=tuple(buffer.l1_size_tiles for buffer in model.inputs),
        grid_transpose=turned,
        untilize_output=any(graph.node(e.consumer).kind is NodeKind.OUTPUT for e in graph.users(node.name)),
        tms={e.operand: tuple(str(tm) for tm in e.tms) for e in edges if e.tms},
        attributes={
            **({"fused_op_id": fused} if fused is not None else {}),
            **dict(_attributes(graph, node, model, edges)),
        },
    )


def _attributes(graph: BudaGraph, node: Node, model: OpModel, edges: tuple[Edge, ...]) -> Iterator[tuple[str, Any]]:
    spec = node.spec
    if spec.is_matmul:
        yield from (("m_k", model.m_k), ("u_kt", model.u_kt))
    if spec.sparse is not None:
        share = spec.sparse.share(model.grid.r, model.stream.r, model.stream.z_major, model.block.ublock.rt, model.u_kt)
        yield "identity", True
        yield "num_sparse_tiles", share.unique_tiles
        yield "num_index_tiles", model.inputs[2].l1_size_tiles
        if spec.sparse.windows is not None:
            w = spec.sparse.windows
            yield (
                "windows",
                {
                    "size": list(w.size),
                    "kernel": list(w.kernel),
                    "stride": list(w.stride),
                    "padding": [list(side) for side in w.padding],
                    "dilation": list(w.dilation),
                },
            )
        if spec.sparse.runs:
            yield ("rows", {"of": spec.sparse.cols * TILE, "taps": spec.sparse.taps, "runs": list(spec.sparse.runs)})
    if spec.type == "reduce":
        yield from (("dim", spec.reduce_dim), ("type", spec.reduce_type))
        if spec.reduce_dim == "z":
            yield "z", graph.operand_shape(edges[0]).z
    yield from _eltwise_attributes(spec)
    if spec.l1_acc:
        yield "l1_acc", True
    if spec.slices is not None:
        s = spec.slices
        yield ("slices", {"dims": list(s.dims), "begins": list(s.begins), "ends": list(s.ends), "steps": list(s.steps)})
    if spec.stacked:
        yield "stacked", spec.stacked
    if not model.stream.none:
        yield "t_stream", {"dir": model.stream.dir, "factor": [model.stream.r, model.stream.c]}
    if node.elements is not None:
        yield "elements", list(node.elements)


def _eltwise_attributes(spec: OpSpec) -> Iterator[tuple[str, Any]]:
    if spec.relu:
        yield from (("relu_en", True), ("relu_threshold", 0.0), ("relu_mode", "min"))
    if spec.approximate:
        yield "approximate_mode", True
    if spec.vector:
        yield "vector", spec.vector


def _programs(queues: dict[str, Queue], graphs: list[Graph], microbatch: int) -> tuple[Program, ...]:
    """Returns a program per kind of graph.

    Only inference loops: the passes of a training step pass data to each other in queues of one entry.
    """
    kinds = {kind: [g for g in graphs if g.name.startswith(f"{kind}_")] for kind in KINDS.values()}
    trains = bool(kinds["bwd"] or kinds["opt"])
    return tuple(
        Program(f"run_{kind}_0", tuple(_instructions(queues, graphs_of_kind, microbatch, loops=not trains)))
        for kind, graphs_of_kind in kinds.items()
        if graphs_of_kind
    )


def _instructions(
    queues: dict[str, Queue], graphs: list[Graph], microbatch: int, loops: bool
) -> Iterator[tuple[str, Any]]:
    """Yields the host's instructions: each graph runs once per microbatch; pointers of queues advance, of rams not."""
    read_here = {name for graph in graphs for op in graph.ops for name in op.inputs}
    streams = [q for q in queues.values() if q.type == "queue" and q.input == HOST and q.name in read_here]
    if loops:
        yield "param", ["$p_loop_count"]
    yield "var", {"$c_one": 1, "$c_zero": 0, "$c_microbatch_size": microbatch}
    yield "staticvar", {f"${kind}ptr_q{i}": 0 for i, _ in enumerate(streams) for kind in "gl"}
    if loops:
        yield "loop", "$p_loop_count"
    number = {queue.name: i for i, queue in enumerate(streams)}
    for graph in graphs:
        read = dict.fromkeys(name for op in graph.ops for name in op.inputs if name in queues)
        settings = {name: _settings(queues[name], number.get(name)) for name in read}
        yield "execute", {"graph_name": graph.name, "queue_settings": settings}
    for i, queue in enumerate(streams):
        wrap = 2 * queue.entries
        yield from (("varinst", [f"${kind}ptr_q{i}", "incwrap", "$c_microbatch_size", wrap]) for kind in "gl")
    if loops:
        yield "endloop", None


def _settings(queue: Queue, number: int | None) -> dict[str, Any]:
    local, everywhere = ("$c_zero", "$c_zero") if number is None else (f"$lptr_q{number}", f"$gptr_q{number}")
    return {"prologue": False, "epilogue": False, "zero": False, "rd_ptr_local": local, "rd_ptr_global": everywhere}


class _Hex(int):
    """An address, written in hexadecimal."""


class _Dumper(yaml.CSafeDumper):
    """A SafeDumper that writes addresses in hexadecimal, and repeated objects in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(_Hex, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:int", hex(value)))


def to_yaml(netlist: Netlist) -> str:
    """Returns the text of the file, with a line per queue, op and instruction."""
    lines = [f"# {netlist.name}", f"devices: {_flow({'arch': netlist.arch})}", "queues:"]
    lines += [f"  {name}: {_flow(_queue_row(queue))}" for name, queue in netlist.queues.items()]
    lines.append("graphs:")
    for graph in netlist.graphs:
        lines += [f"  {graph.name}:", f"    target_device: {graph.target_device}"]
        lines.append(f"    input_count: {graph.input_count}")
        lines += [f"    {op.name}: {_flow(_op_row(op))}" for op in graph.ops]
    lines.append("programs:")
    for program in netlist.programs:
        lines.append(f"  - {program.name}:")
        for name, argument in program.instructions:
            lines.append(f"    - {name}" if argument is None else f"    - {name}: {_flow(argument)}")
    if netlist.fused_ops:
        lines.append("fused_ops:")
        lines += [f"  {number}: {_flow(_fused_row(fused))}" for number, fused in netlist.fused_ops.items()]
    return "\n".join(lines) + "\n"


def _fused_row(fused: FusedOp) -> dict[str, Any]:
    schedules = [[{step.name: _step_row(step)} for step in schedule] for schedule in fused.schedules]
    return {"inputs": fused.inputs, "intermediates": fused.intermediates, "schedules": schedules}


def fused_row(number: int, fused: Fused, model: OpModel) -> FusedOp:
    """Returns the entry of a fused op, in the blocks of its op model."""
    block = model.block
    schedules = tuple(
        tuple(
            SubOp(
                step.name,
                step.spec.type,
                step.inputs,
                step.output,
                {i: tuple(map(str, tms)) for i, tms in enumerate(step.tms) if tms},
                dict(_step_attributes(step)),
                (block.mblock_m, block.mblock_n),
                (block.ublock.rt, block.ublock.ct),
                step.pop,
            )
            for step in schedule
        )
        for schedule in fused.schedules
    )
    return FusedOp(number, fused.inputs, fused.intermediates, schedules)


def _step_attributes(step: Step) -> Iterator[tuple[str, Any]]:
    yield from _eltwise_attributes(step.spec)
    if step.elements is not None and step.output != OUTPUT:
        yield "elements", list(step.elements)


def _step_row(step: SubOp) -> dict[str, Any]:
    row: dict[str, Any] = {"type": step.type, "inputs": list(step.inputs)}
    row |= {f"input_{i}_tms": [_tm_row(tm) for tm in tms] for i, tms in step.tms.items()}
    row |= {"attributes": dict(step.attributes)} if step.attributes else {}
    row |= {key: list(pair) for key, pair in (("mblock", step.mblock), ("ublock", step.ublock)) if pair is not None}
    row |= {"pop": list(step.pop)} if step.pop else {}
    return row | {"output": step.output}


def op_line(op: Op) -> str:
    """Returns an op as its line in the file."""
    return f"{op.name}: {_flow(_op_row(op))}"


def _flow(value: Any) -> str:
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, width=MOST_COLUMNS, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _queue_row(queue: Queue) -> dict[str, Any]:
    row = {
        "input": queue.input,
        "type": queue.type,
        "entries": queue.entries,
        "grid_size": list(queue.grid_size),
        "t": queue.t,
        "mblock": list(queue.mblock),
        "ublock": list(queue.ublock),
        "ublock_order": queue.ublock_order,
        "tile_dim": list(queue.tile_dim),
        "df": queue.df,
        "target_device": queue.target_device,
        "loc": queue.loc,
        queue.loc: [[channel, _Hex(address)] for channel, address in queue.addresses],
    }
    row |= {"input_tms": [_tm_row(tm) for tm in queue.input_tms]} if queue.input_tms else {}
    return row | ({"elements": list(queue.elements)} if queue.elements else {})


def _op_row(op: Op) -> dict[str, Any]:
    row: dict[str, Any] = {
        "type": op.type,
        "grid_loc": list(op.grid_loc),
        "grid_size": list(op.grid_size),
        "inputs": list(op.inputs),
    }
    row |= {"grid_transpose": True} if op.grid_transpose else {}
    row |= {"untilize_output": True} if op.untilize_output else {}
    row |= {
        "t": op.t,
        "mblock": list(op.mblock),
        "ublock": list(op.ublock),
        "buf_size_mb": op.buf_size_mb,
        "input_buf_min_size_tiles": list(op.input_buf_min_size_tiles),
        "ublock_order": op.ublock_order,
        "in_df": list(op.in_df),
        "out_df": op.out_df,
        "intermed_df": op.intermed_df,
        "acc_df": op.acc_df,
        "math_fidelity": op.math_fidelity,
    }
    row |= {f"input_{i}_tms": [_tm_row(tm) for tm in tms] for i, tms in op.tms.items()}
    return row | ({"attributes": dict(op.attributes)} if op.attributes else {})


def _tm_row(text: str) -> Any:
    """Converts `hslice(4)` to `{hslice: 4}` and `broadcast(r, 2)` to `{broadcast: {r: 2}}`; keeps `transpose`."""
    from opscope.compiler.buda.graph import Tm

    tm = Tm.parse(text)
    match tm.name:
        case "transpose":
            return "transpose"
        case "broadcast":
            return {"broadcast": {tm.dim: tm.factor}}
        case "tile_broadcast":
            return {"tile_broadcast": tm.dim}
        case "buda_pad" | "buda_unpad":
            return {tm.name: {"rt": tm.rt, "ct": tm.ct}}
    return {tm.name: tm.factor}
