"""A plan as `opscope plan --json` prints it."""

from __future__ import annotations

from opscope.compiler.buda.balancer.op_model import Candidate, OpModel
from opscope.compiler.buda.balancer.shapes import BufferModel, StreamFactor
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_report import whole_cycles
from opscope.wire import plan as wire


def answer(plan: BudaPlan, op: str = "") -> wire.Plan | wire.PlanOfOp:
    """Returns the whole plan, or the plan with every candidate of one op, as `--json` prints it."""
    head = {
        "graph": plan.graph.name,
        "arch": plan.budget.arch,
        "grid": (plan.budget.grid.r, plan.budget.grid.c),
        "policy": plan.policy,
        "placeholder_figures": plan.budget.placeholder,
        "unmeasured_ops": dict(plan.unmeasured),
        "cycles_per_input": plan.cycles,
        "dram_cuts": tuple((edge.producer, edge.consumer) for edge in plan.cuts),
        "buffering": tuple(
            wire.Buffering(kind=b.kind, name=b.name, edge=(b.edge.producer, b.edge.consumer), why=b.why)
            for b in plan.buffering
        ),
    }
    if op:
        name = plan.graph.node(op).name
        every = tuple(_candidate(candidate) for candidate in plan.legal[name].candidates)
        return wire.PlanOfOp(**head, op=wire.OpInDetail(**dict(_op(plan, name)), all=every))
    crossing, switch = plan.crossing_bytes(), plan.switch_cycles()
    loads, loading = plan.load_bytes(), plan.load_cycles()
    epochs = (
        wire.Epoch(
            epoch=epoch.number,
            chip=epoch.chip,
            type=epoch.kind,
            cores=epoch.cores,
            cycles=epoch.cycles,
            cycles_of_one_input=whole_cycles(plan.flow_cycles(epoch)),
            bytes_to_dram=crossing[i],
            switch_cycles=switch[i],
            bytes_of_programs_and_routes=loads[i],
            load_cycles=loading[i],
            placements=tuple(
                wire.Placement(op=p.op.name, start=(p.row, p.col), grid=(p.grid.r, p.grid.c), transposed=p.transposed)
                for p in epoch.placements
            ),
        )
        for i, epoch in enumerate(plan.epochs)
    )
    return wire.Plan(**head, ops=tuple(_op(plan, node.name) for node in plan.graph.ops), epochs=tuple(epochs))


def _op(plan: BudaPlan, name: str) -> wire.Op:
    legal, choice, spec = plan.legal[name], plan.choices[name], plan.graph.node(name).spec
    fused = {}
    if spec.fused is not None:
        fused["fused_steps"] = tuple(
            wire.Step(name=s.name, op=s.origin, inputs=s.inputs, output=s.output) for s in spec.fused.steps
        )
    return wire.Op(
        name=name,
        **fused,
        candidates=len(legal.candidates),
        op_models=len(legal.models),
        failures={reason.value: n for reason, n in legal.failures.items()},
        chosen=_model(choice.model),
        why=choice.why,
    )


def _candidate(candidate: Candidate) -> wire.Legal | wire.Refused:
    if candidate.models:
        return wire.Legal(op_models=tuple(_model(model) for model in candidate.models))
    return wire.Refused(
        grid_shape=wire.Grid(r=candidate.grid.r, c=candidate.grid.c),
        t_stream_factor=_stream(candidate.stream),
        failure=candidate.failure.value if candidate.failure else "",
        detail=candidate.detail,
    )


def _model(model: OpModel) -> wire.OpModel:
    return wire.OpModel(
        grid_shape=wire.Grid(r=model.grid.r, c=model.grid.c),
        op_type=model.spec.type,
        data_format=model.output.data_format,
        math_fidelity=model.spec.math_fidelity,
        t_stream_factor=_stream(model.stream),
        cached_execution_cycles=model.cycles,
        l1_bytes=model.l1_bytes,
        input_buffers=tuple(map(_buffer, model.inputs)),
        output_buffers=(_buffer(model.output),),
        intermediate_buffers=tuple(map(_buffer, model.intermediates)),
        parameter_buffers=tuple(_buffer(buffer) if buffer else None for buffer in model.parameters),
    )


def _stream(stream: StreamFactor) -> wire.Stream:
    return wire.Stream(dir=stream.dir, r=stream.r, c=stream.c)


def _buffer(buffer: BufferModel) -> wire.Buffer:
    block = buffer.block_shape
    return wire.Buffer(
        block_shape=wire.Block(
            t=block.t,
            mblock_m=block.mblock_m,
            mblock_n=block.mblock_n,
            ublock=wire.Ublock(rt=block.ublock.rt, ct=block.ublock.ct),
        ),
        buffer_factor=buffer.factor,
        l1_size_tiles=buffer.l1_size_tiles,
        data_format=buffer.data_format,
    )
