"""Writes a plan as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from opscope.base.visible_text import counted
from opscope.compiler.buda.balancer.limiter import limiter_cycles
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.plan import BudaPlan


def plan_lines(plan: BudaPlan) -> Iterator[str]:
    """Yields the plan in lines: epochs, and in each the ops with their models."""
    yield from _head(plan)
    crossing, switch, loading = plan.crossing_bytes(), plan.switch_cycles(), plan.load_cycles()
    trains = any(epoch.kind != "forward" for epoch in plan.epochs)
    for i, epoch in enumerate(plan.epochs):
        kind = f" {epoch.kind}" if trains else ""
        yield (
            f"epoch {epoch.number} chip {epoch.chip}{kind}: {epoch.cores} of {plan.budget.grid.volume} cores, "
            f"{epoch.cycles} cycles; switch: {crossing[i]} bytes to DRAM and back, {switch[i]} cycles; programs and "
            f"routes to L1: at most {loading[i]} cycles; one input passes in {whole_cycles(plan.flow_cycles(epoch))}"
        )
        for placed in epoch.placements:
            model = plan.choices[placed.op.name].model
            side = " on its side" if placed.transposed else ""
            yield (
                f"  {placed.op.name:32} {model.spec.type:14} grid {placed.op.grid!s:>6} at "
                f"({placed.row}, {placed.col}){side}  {_model_line(model)}"
            )
            if model.spec.fused is not None:
                yield f"  {'':32} = {model.spec.fused}"
    queues = {note.edge for note in plan.buffering if note.kind == "queue"}
    for edge in plan.cuts:
        if edge not in queues:
            yield f"through DRAM: {edge.producer} -> {edge.consumer} (no two models stream along this edge)"
    for note in plan.buffering:
        yield f"buffering: {note.kind} {note.name} on {note.edge.producer} -> {note.edge.consumer}: {note.why}"


def whole_cycles(cycles: float) -> int | None:
    """Cycles as a whole number; None for an epoch that no input passes, because its ops wait for each other."""
    return round(cycles) if isfinite(cycles) else None


def op_lines(plan: BudaPlan, name: str) -> Iterator[str]:
    """Yields every candidate of one op, and the chosen one."""
    legal, choice = plan.legal[plan.graph.node(name).name], plan.choices[name]
    yield from _head(plan)
    node = plan.graph.node(name)
    yield f"{name}: {node.spec.type} of {node.shape}, {node.data_format}"
    if node.spec.fused is not None:
        for step in node.spec.fused.steps:
            yield f"  step {step.name:16} {', '.join(step.inputs)} -> {step.output}  ({step.origin})"
    for candidate in legal.candidates:
        where = f"  {candidate.grid!s:>6} {candidate.stream.dir:>2} t {candidate.stream.t:<4}"
        if candidate.failure is not None:
            yield f"{where} {candidate.failure.value}{f': {candidate.detail}' if candidate.detail else ''}"
        for model in candidate.models:
            mark = " <- chosen" if model.holding(choice.model.output.factor) == choice.model else ""
            yield f"{where} {_model_line(model)}{mark}"
    legal_count = sum(bool(candidate.models) for candidate in legal.candidates)
    yield f"candidates {len(legal.candidates)}, legal {legal_count}, op models {len(legal.models)}"
    for reason, count in legal.failures.most_common():
        yield f"  {count:6} {reason.value}"
    limit = limiter_cycles(plan.graph, name, choice.model, plan.budget)
    yield f"chosen: {_model_line(choice.model)}; {limit} cycles with data movement"
    yield f"why: {choice.why}"


def dram_queues_note(plan: BudaPlan) -> str:
    """Describes in a sentence what waits in DRAM between epochs."""
    total, switches = sum(plan.crossing_bytes()), sum(plan.switch_cycles())
    return f"Epoch switches write {total:,} bytes of activations to DRAM and read them back: {switches:,} cycles."


def borrowed_note(plan: BudaPlan) -> str:
    """Says which figures are another chip's; nothing where all are the chip's own."""
    if not plan.budget.placeholder:
        return ""
    return f"figures of {plan.budget.arch} are placeholders in TT-Buda: Wormhole's constants, never measured on it"


def _head(plan: BudaPlan) -> Iterator[str]:
    ops = counted(len(plan.graph.ops), "op")
    yield f"{plan.graph.name}: {ops} on {plan.budget.arch} {plan.budget.grid}, policy {plan.policy}"
    if note := borrowed_note(plan):
        yield note
    if plan.unmeasured:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in plan.unmeasured.items())
        yield f"no measured cycles on {plan.budget.arch}, counted as a copy: {kinds}"
    unlike = len({id(legal.candidates) for legal in plan.legal.values()})
    if unlike < len(plan.legal):
        yield f"op models worked out for {unlike} of {len(plan.legal)} ops: the others are equal to one of them"
    epochs = "1 epoch" if len(plan.epochs) == 1 else f"{len(plan.epochs)} epochs"
    switches = f", and {sum(plan.switch_cycles())} in switches" if len(plan.epochs) > 1 else ""
    yield f"{epochs}, {plan.cycles} cycles per input by TT-Buda's op models{switches}"


def _model_line(model: OpModel) -> str:
    inputs = "/".join(str(buffer.l1_size_tiles) for buffer in model.inputs)
    block = model.block
    steps = f" m_k {model.m_k} u_kt {model.u_kt}" if model.spec.is_matmul else ""
    return (
        f"cycles {model.cycles:<9} block t {block.t} {block.mblock_m}x{block.mblock_n} of "
        f"{block.ublock.rt}x{block.ublock.ct}{steps}  tiles in {inputs} out {model.output.l1_size_tiles}  "
        f"L1 {model.l1_bytes}"
    )
