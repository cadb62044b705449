"""The legalizer: turns every candidate of an op into op models, or gives the reason why it is illegal."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace

from opscope.compiler.buda.balancer import buffers
from opscope.compiler.buda.balancer.access import Access, access, leads_to_output
from opscope.compiler.buda.balancer.budget import Budget, dst_tiles
from opscope.compiler.buda.balancer.cycles.estimate import estimate
from opscope.compiler.buda.balancer.enumerate import candidates, consumes_z_major, micro_block, parallelization
from opscope.compiler.buda.balancer.failure import OpModelFailureReason as Reason
from opscope.compiler.buda.balancer.op_model import Candidate, OpModel, l1_usage
from opscope.compiler.buda.balancer.options import LegalizerOptions, NoEffect
from opscope.compiler.buda.balancer.padding import padding_fits
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Cut, Grid, StreamFactor, divisors
from opscope.compiler.buda.graph import BudaGraph, Edge, Node
from opscope.compiler.errors import CompilerInputError


@dataclass(frozen=True)
class Illegal:
    """A candidate that cannot be an op model."""

    reason: Reason
    detail: str = ""
    model: OpModel | None = None
    """The model that it would be with more L1."""


@dataclass(frozen=True)
class LegalModels:
    """All candidates of one op."""

    node: Node
    candidates: tuple[Candidate, ...]

    @property
    def models(self) -> tuple[OpModel, ...]:
        """Returns every op model, in the order of enumeration."""
        return tuple(model for candidate in self.candidates for model in candidate.models)

    @property
    def failures(self) -> Counter[Reason]:
        """Returns how often each reason occurred."""
        return Counter(c.failure for c in self.candidates if c.failure is not None)


class NoLegalModel(CompilerInputError):
    """Ops of a graph have no legal model."""

    def __init__(self, arch: str, ops: Sequence[LegalModels]) -> None:
        node = ops[0].node
        reasons = ", ".join(f"{reason.value} ({n})" for reason, n in ops[0].failures.most_common())
        super().__init__(
            f"{node.name}: expected a legal op model on {arch} for {node.spec.type} of {node.shape}, "
            f"got none: {reasons}"
        )
        self.ops = tuple(ops)


def legalize(
    graph: BudaGraph,
    name: str,
    budget: Budget,
    options: LegalizerOptions | None = None,
    in_dram: Collection[Edge] = (),
) -> LegalModels:
    """Returns every candidate of the op `name`; what it makes waits on the edges `in_dram`.

    Raises CompilerInputError for an unknown op or an illegal override.
    """
    options = options or LegalizerOptions()
    node = graph.node(name)
    models = [
        _candidate(_Trial(graph, node, budget, options, grid, stream, in_dram))
        for grid, stream in candidates(graph, node, budget, options)
    ]
    return LegalModels(node, tuple(models))


def legalize_graph(
    graph: BudaGraph, budget: Budget, options: LegalizerOptions | None = None, in_dram: Collection[Edge] = ()
) -> dict[str, LegalModels]:
    """Returns every op's candidates; equal ops in equal surroundings share theirs.

    Raises NoLegalModel if ops have no legal model, with the count of each reason.
    """
    options = options or LegalizerOptions()
    known: dict[Hashable, LegalModels] = {}
    legal_models: dict[str, LegalModels] = {}
    for node in graph.ops:
        waits = tuple(edge in in_dram for edge in graph.users(node.name)) if in_dram else ()
        key = (surroundings(graph, node), options.override(node.name), waits)
        if key not in known:
            known[key] = _as_overridden(graph, node.name, budget, options, in_dram)
        legal_models[node.name] = LegalModels(node, known[key].candidates)
    if lacking := [legal for legal in legal_models.values() if not legal.models]:
        raise NoLegalModel(budget.arch, lacking)
    return legal_models


def _as_overridden(
    graph: BudaGraph, name: str, budget: Budget, options: LegalizerOptions, in_dram: Collection[Edge]
) -> LegalModels:
    if not options.overrides_may_miss or name not in options.overrides:
        return legalize(graph, name, budget, options, in_dram)
    try:
        legal = legalize(graph, name, budget, options, in_dram)
        if legal.models:
            return legal
        refused = "no model of the op is like that"
    except CompilerInputError as error:
        refused = str(error)
    warnings.warn(f"{name}: its override has no effect here: {refused}", NoEffect, stacklevel=2)
    return legalize(graph, name, budget, replace(options, overrides={}), in_dram)


def surroundings(graph: BudaGraph, node: Node) -> Hashable:
    """Returns everything about an op that the legalizer reads: ops with equal surroundings have equal models."""
    operands = tuple(
        (edge.tms, source.shape, source.data_format, source.kind.is_resident, consumes_z_major(graph, edge))
        for edge in graph.operands(node.name)
        for source in (graph.node(edge.producer),)
    )
    users = tuple(
        (
            edge.tms,
            user.kind,
            user.op.padding_nop if user.op else False,
            user.op.epoch_type if user.op else "",
            graph.read_order(edge),
            leads_to_output(graph, user),
        )
        for edge in graph.users(node.name)
        for user in (graph.node(edge.consumer),)
    )
    return node.op, node.shape, node.data_format, graph.ublock_orders[node.name], operands, users


@dataclass(frozen=True)
class _Trial:
    """An op on a grid, streamed in some way: what all sizes of its blocks share."""

    graph: BudaGraph
    node: Node
    budget: Budget
    options: LegalizerOptions
    grid: Grid
    stream: StreamFactor
    in_dram: Collection[Edge]


def _candidate(trial: _Trial) -> Candidate:
    node, options, grid, stream = trial.node, trial.options, trial.grid, trial.stream
    u_kt = options.override(node.name).u_kt
    first = _shrinking(trial, u_kt)
    if isinstance(first, Illegal):
        return Candidate(grid, stream, (), first.reason, first.detail, first.model)
    models = [first]
    if options.enumerate_u_kt and node.spec.type in ("matmul", "sparse_matmul") and not u_kt:
        smaller = (_shrinking(trial, step) for step in _smaller_steps(first))
        models += [model for model in smaller if isinstance(model, OpModel)]
    return Candidate(grid, stream, tuple(models))


def _smaller_steps(model: OpModel) -> tuple[int, ...]:
    steps = divisors(model.u_kt)[:-1]
    pattern, stream = model.spec.sparse, model.stream
    if pattern is None:
        return steps
    return pattern.legal_inner_tiles(model.grid.r, stream.r if stream.by_rows else 1, stream.z_major, steps)


def _shrinking(trial: _Trial, u_kt: int) -> OpModel | Illegal:
    """Returns the op model; halves the tiles of a micro block until it fits into memory."""
    tiles = dst_tiles(trial.node.spec.acc_format)
    while True:
        candidate = _model(trial, u_kt, tiles)
        if isinstance(candidate, OpModel) or not candidate.reason.is_memory or tiles == 1:
            return candidate
        tiles //= 2


def _model(trial: _Trial, u_kt: int, dst: int) -> OpModel | Illegal:
    graph, node, options, grid, stream = trial.graph, trial.node, trial.options, trial.grid, trial.stream
    rows, cols = parallelization(node)
    around = access(graph, node, grid, stream, graph.ublock_orders[node.name], trial.in_dram)
    if refused := _streaming(node, options, stream, around):
        return refused
    ublock = micro_block(node, rows // (grid.r * stream.r), cols // (grid.c * stream.c), dst)
    block = BlockShape.of(node.shape, grid, stream, ublock)
    output = buffers.output_buffer(node, block, around.buffer_factor)
    if not padding_fits(graph, node, block):
        return Illegal(Reason.PaddingConstraintsNotSatisfied)
    if refused := illegal_encoding(node, grid, stream, block):
        return refused
    override = options.override(node.name).dram_parameters
    in_dram = options.dram_parameters if override is None else override
    none: tuple[BufferModel | None, ...] = (None,) * len(graph.operands(node.name))
    resident = none if in_dram else buffers.parameter_buffers(graph, node, grid)
    return _fit(trial, u_kt, output, resident)


def _streaming(node: Node, options: LegalizerOptions, stream: StreamFactor, around: Access) -> Illegal | None:
    operands, users = around.operands_stream, around.users_stream
    if options.max_matmul_t and node.spec.is_matmul and stream.t > options.max_matmul_t:
        return Illegal(Reason.IllegalStreaming, f"t {stream.t} > {options.max_matmul_t}")
    if not around.stack_fits_grid:
        return Illegal(Reason.IllegalStackForGrid)
    if stream.none or (operands and users):
        return None
    if not operands and not users:
        return Illegal(Reason.OperandAndUserAccessPreventsStreaming)
    return Illegal(Reason.UserAccessPreventsStreaming if operands else Reason.OperandAccessPreventsStreaming)


def illegal_encoding(node: Node, grid: Grid, stream: StreamFactor, block: BlockShape) -> Illegal | None:
    """Returns why a sparse operand cannot be encoded for these blocks; None if it can, or if there is none."""
    pattern = node.spec.sparse
    if pattern is None:
        return None
    most = pattern.most_inner_tiles(block.mblock_m, block.ublock.rt)
    rows = stream.r if stream.by_rows else 1
    legal = pattern.legal_inner_tiles(grid.r, rows, stream.z_major, divisors(pattern.cols))
    if not legal:
        return Illegal(Reason.IllegalSparseMatmul, f"no inner block keeps the order of {pattern.rows} rows")
    if most < min(legal):
        return Illegal(
            Reason.IllegalSparseMatmul,
            f"{pattern.unique_tiles} tiles, {block.mblock_m} blocks of {block.ublock.rt} rows and inner blocks of "
            f"{min(legal)} exceed an index of 16 bits",
        )
    return None


def _fit(trial: _Trial, u_kt: int, output: BufferModel, resident: tuple[BufferModel | None, ...]) -> OpModel | Illegal:
    """Returns input buffers for what is left of L1; if none fit, the largest resident parameter first moves to DRAM."""
    graph, node, budget, grid, stream = trial.graph, trial.node, trial.budget, trial.grid, trial.stream
    intermediates = buffers.intermediate_buffers(node, output)
    inputs: tuple[BufferModel, ...] = ()
    dram: list[BufferModel | None] = [None] * len(resident)
    single = trial.options.single_buffer_fallback and output.factor % 2 == 0
    while True:
        used = l1_usage(node.spec, (), output, resident, intermediates)
        if used < budget.l1_usable:
            space = budget.l1_usable - used
            inputs = buffers.input_buffers(graph, Cut(node, grid, stream, output.block_shape), space, u_kt)
            if l1_usage(node.spec, inputs, output, resident, intermediates) <= budget.l1_usable:
                break
        sizes = {i: buffer.total_bytes for i, buffer in enumerate(resident) if buffer is not None}
        largest = max(sizes, key=sizes.__getitem__, default=None)
        if largest is not None:
            dram[largest] = resident[largest]
            resident = tuple(None if i == largest else buffer for i, buffer in enumerate(resident))
        elif single:
            output = BufferModel(output.block_shape, output.held, output.factor // 2, output.data_format)
            single = False
        else:
            break
    if not inputs:
        return Illegal(
            Reason.InputBufferAllocationFailure,
            f"Output[{output.l1_bytes}] leaves {max(0, budget.l1_usable - used)} of L1 Max[{budget.l1_usable}]",
        )
    usage = l1_usage(node.spec, inputs, output, resident, intermediates)
    reduced_z = graph.operand_shape(graph.operands(node.name)[0]).z
    cycles = estimate(budget.arch, Cut(node, grid, stream, output.block_shape), inputs, reduced_z)
    model = OpModel(node.spec, grid, stream, inputs, output, resident, intermediates, tuple(dram), cycles)
    if usage > budget.l1_usable:
        return Illegal(Reason.L1UsageOverMaxLimit, f"L1 Usage[{usage}] > L1 Max[{budget.l1_usable}]", model)
    for buffer in dram:
        if buffer is not None and buffer.total_bytes > budget.dram_channel_bytes:
            return Illegal(
                Reason.ExceededDramChannelCapacity,
                f"Buffer Usage[{buffer.total_bytes}] > DRAM Channel[{budget.dram_channel_bytes}]",
            )
    return model
