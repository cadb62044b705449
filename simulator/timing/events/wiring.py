"""An epoch as a graph: its placed ops, the queues that feed it, and which part of an operand each block needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.plan import EpochPlan, PlacedOp, Plan, QueuePlan
from opscope.compiler.target.program import MatmulParams, Program, ReduceParams, SparseMatmulParams
from opscope.simulator.timing.traffic import HOST, MANIPULATIONS, resident_queues

PARTS = 4
"""Parts of a macro block that readers may fetch one after another, at most."""
FORKED = 1000
"""Inputs that an op with several readers may be ahead of them. Where their ways meet again, the shorter one has to hold
what the longer one works on; plans see to that with buffers, which hold tiles and not macro blocks as here."""
AHEAD = 2
"""Macro blocks that are read from DRAM before cores have fetched them: a read buffer holds two."""


@dataclass
class Source:
    """What feeds operands: a placed op of the epoch, or a queue."""

    name: str
    blocks: int
    """Pieces that become ready one after another, for one input."""
    room: int
    """Pieces that it may be ahead of the slowest reader."""
    op: PlacedOp | None = None
    queue: QueuePlan | None = None
    far: bool = False
    parts: int = 1
    """Pieces of one macro block."""
    """Whether it comes from another chip."""
    readers: list[Operand] = field(default_factory=list)


@dataclass
class Operand:
    """An operand of a placed op, from its source to the op's cores."""

    op: PlacedOp
    source: Source
    needs: str
    """What a block of the op needs of it: its `share` of a macro block, the `macro` block, or the `whole` operand."""
    core_bytes: float
    """What a core receives for one input."""
    lines: str
    """Which cores receive the same: `rows` or `cols` of the op's grid, or `` for none."""
    number: int
    """The operation that reads it: the op's, or one of its steps."""

    def needed(self, block: int) -> int:
        """Returns how many pieces of the source a block of the op needs, in macro blocks or parts of one."""
        pieces, parts = self.source.blocks, parts_of(self.op)
        if self.needs == "whole":
            return pieces
        if self.needs == "macro":
            block = (block // parts + 1) * parts - 1
        return -(-(block + 1) * pieces // (self.op.block.t * parts))

    def block_of(self, piece: int) -> int:
        """Returns the first block of the op that needs a piece, less those that it is fetched ahead of."""
        parts = parts_of(self.op)
        if self.needs == "whole":
            return -parts
        first = piece * self.op.block.t * parts // self.source.blocks
        return first - 1 if self.needs == "share" else first // parts * parts - parts


def parts_of(op: PlacedOp) -> int:
    """Returns how many parts of a macro block an op hands on; partial sums make it ready as a whole."""
    return 1 if op.m_k > 1 else max(1, min(PARTS, op.block.mblock_m * op.block.mblock_n))


@dataclass
class Epoch:
    """One epoch on one chip."""

    plan: EpochPlan
    ops: list[PlacedOp]
    sources: list[Source]
    operands: dict[str, list[Operand]]
    """Op -> its operands that take time to come."""
    leaves: dict[str, list[QueuePlan]]
    """Op -> queues in DRAM that it writes."""


def wire(epoch: EpochPlan, plan: Plan, program: Program) -> Epoch:
    """Returns the graph of an epoch. Operands that the host keeps in its own memory, or a prologue in L1, are free."""
    ops = [op for op in plan.ops if (op.epoch, op.chip) == (epoch.number, epoch.chip)]
    maker_of = {tensor: number for number, op in enumerate(program.operations) for tensor in op.outputs}
    placed = {number: op for op in plan.ops for number in (*op.steps, op.operation)}
    kept = resident_queues(plan) if plan.programs else {queue.name for queue in plan.queues}
    queues = {queue.tensor: queue for queue in plan.queues if queue.location == "dram" and queue.tensor >= 0}
    chip_of = {op.name: op.chip for op in plan.ops}
    sources = {op.name: _source(op) for op in ops}
    operands: dict[str, list[Operand]] = {op.name: [] for op in ops}
    for op in ops:
        for number in (*op.steps, op.operation):
            for place, tensor in enumerate(program.operations[number].inputs):
                origin, moved = _origin(tensor, program, maker_of)
                maker = placed.get(maker_of.get(origin, -1))
                if maker is op:
                    continue
                if maker is not None and maker.name in sources and maker in ops:
                    source = sources[maker.name]
                else:
                    queue = queues.get(origin) or queues.get(tensor)
                    if queue is None or (queue.source == HOST and queue.name in kept):
                        continue
                    far = queue.chip != op.chip or chip_of.get(queue.source, op.chip) != op.chip
                    # Each reader has a pointer of its own into a queue, and reads for itself.
                    source = sources.setdefault(
                        f"{queue.name} for {op.name}",
                        Source(f"{queue.name} for {op.name}", op.block.t, AHEAD, queue=queue, far=far),
                    )
                needs, lines, size = _share(op, program, number, place, moved)
                if any(o.source is source and o.lines == lines for o in operands[op.name]):
                    continue
                operand = Operand(op, source, needs, size, lines, number)
                source.readers.append(operand)
                operands[op.name].append(operand)
    for source in sources.values():
        if source.op is not None and len(source.readers) > 1:
            source.room = source.blocks * FORKED
    leaves = {op.name: [q for q in queues.values() if q.source == op.name] for op in ops}
    return Epoch(epoch, ops, list(sources.values()), operands, leaves)


def received_bytes(plan: Plan, program: Program) -> Counter[int]:
    """Returns the bytes that a core receives for one input, by the number of the operation that reads them."""
    received: Counter[int] = Counter()
    for epoch in plan.epochs:
        for operands in wire(epoch, plan, program).operands.values():
            for operand in operands:
                received[operand.number] += round(operand.core_bytes)
    return received


def _source(op: PlacedOp) -> Source:
    parts = parts_of(op)
    return Source(op.name, op.block.t * parts, _room(op) * parts, op, parts=parts)


def _room(op: PlacedOp) -> int:
    """Returns how many macro blocks of an op's result its output buffers hold, at least one."""
    b = op.block
    tiles = sum(buffer.tiles for buffer in op.buffers if buffer.role == "output")
    return max(1, tiles // max(1, b.mblock_m * b.mblock_n * b.ublock_rt * b.ublock_ct))


def _origin(tensor: int, program: Program, maker_of: Mapping[int, int]) -> tuple[int, bool]:
    """Returns the tensor that manipulations on the way to an op read, and whether there are some."""
    moved = False
    while (number := maker_of.get(tensor)) is not None and program.operations[number].kernel in MANIPULATIONS:
        tensor, moved = program.operations[number].inputs[0], True
    return tensor, moved


def _share(op: PlacedOp, program: Program, number: int, place: int, moved: bool) -> tuple[str, str, float]:
    """Returns what a block needs of an operand, who receives the same, and a core's bytes of it."""
    operation = program.operations[number]
    tile = FORMATS[program.tensors[operation.inputs[place]].data_format].tile_bytes
    b, lines = op.block, ""
    rows, cols = b.mblock_m * b.ublock_rt, b.mblock_n * b.ublock_ct
    size = b.t * rows * cols * tile
    needs = "whole" if moved else "share"
    if isinstance(operation.params, MatmulParams) and place < 2:
        size = b.t * (rows, cols)[place] * op.m_k * op.u_kt * tile
        lines = ("rows", "cols")[place]
        # Pieces along rows share the right operand, pieces along columns the left one.
        streamed = moved or op.stream[1 - place] > 1
        needs = "whole" if streamed else "macro" if place or op.m_k > 1 else "share"
    elif isinstance(operation.params, SparseMatmulParams):
        size, needs, lines = cols * op.m_k * op.u_kt * tile, "whole", "cols"
    elif isinstance(operation.params, ReduceParams):
        read = program.tensors[operation.inputs[place]].shape
        left = program.tensors[operation.outputs[0]].shape
        factor = 1.0
        for before, after in zip(read, left, strict=False):
            factor *= max(1, -(-before // (32 if after == 1 else 1)) / max(1, after)) if before != after else 1
        size, needs = size * factor, "whole"
    return needs, lines, float(size)
