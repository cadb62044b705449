"""Cycles of kernels that no plan places and that are no products: a reader, a writer and compute, page after page.

Each core's reader waits for every page that it reads before it asks for the next one, its writer likewise, and both and
the compute between them work at the same time (tt-metal's reader_unary_interleaved_start_id and its like). A core is as
slow as the slowest of the three, all together are as slow as DRAM; the first page pays every latency. Kernels that
rearrange elements do so in the reader or writer, by segments, lines or words: that is what they cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opscope.compiler.target.allocation import pages_of, tile_matrix
from opscope.compiler.target.formats import FORMATS, TILE
from opscope.compiler.target.program import (
    ConcatParams,
    LayoutParams,
    NormParams,
    Operation,
    PermuteParams,
    ReshapeParams,
    SliceParams,
    SoftmaxParams,
    TensorDesc,
)
from opscope.simulator.timing.arch_constants import CONSTANTS
from opscope.simulator.timing.card_rates import CARD_RATES, dram_rates
from opscope.simulator.timing.movement import MOVEMENT, Transfers
from opscope.simulator.timing.tile_cycles import tile_cycles
from opscope.simulator.timing.work_split import FACE, Split, Work, shard_cores

ON_MATRIX_UNIT = frozenset({"add", "subtract", "multiply"})
CHAINS: dict[str, tuple[str, ...]] = {"sigmoid": ("exp", "reciprocal")}
"""Kernels that ttnn makes of others, one after another; what is cheap among these hides."""


@dataclass(frozen=True)
class StreamTime:
    """Cycles of such a kernel, without its start."""

    total: float
    transfer: float
    """The least that reading and writing take."""
    compute: float


@dataclass(frozen=True)
class Stage:
    """What the reader or the writer of the fullest core does for each unit."""

    latency: float
    """Until the first bytes are there."""
    unit: float
    """Cycles of a unit beside waiting."""
    waits: bool
    """Whether it waits for each unit before the next one."""
    whole: float
    """Cycles in which DRAM serves all cores."""

    def first(self, units: int) -> float:
        """Returns the cycles of the first unit."""
        return self.latency + max(self.unit, self.whole / units)

    def every(self, units: int) -> float:
        """Returns the cycles of all units of a core, were it alone."""
        return (units if self.waits else 1) * self.latency + units * self.unit


def streamed(work: Work, split: Split, compute: float) -> StreamTime:
    """Returns the time of an operation whose fullest core computes for `compute` cycles."""
    units = split.per_core
    reader, writer = _reader(work, split), _writer(work, split)
    each = compute / units
    apart = reader.first(units) + writer.first(units)
    shared = (reader.whole + writer.whole) * (units - 1) / units
    alone = max(reader.every(units) - reader.first(units), writer.every(units) - writer.first(units), shared, 0.0)
    later = max(alone, compute - each)
    return StreamTime(apart + each + later, apart + alone, compute)


def far(desc: TensorDesc, outputs: Sequence[TensorDesc]) -> bool:
    """Returns whether an operand does not lie where it is needed."""
    return not (outputs and shard_cores(desc) and shard_cores(outputs[0]) and _alike(desc, outputs[0]))


def _alike(operand: TensorDesc, result: TensorDesc) -> bool:
    same = (operand.memory_layout, operand.grid) == (result.memory_layout, result.grid)
    return same and tile_matrix(operand.shape) == tile_matrix(result.shape)


def streamed_compute(work: Work, tiles: int) -> float:
    """Returns the cycles in which a core computes so many tiles of an operation."""
    op, result = work.op, work.result
    constants, rates = CONSTANTS[work.system.arch], CARD_RATES[work.system.arch]
    if _only_moves(op, work.inputs, result):
        return 0.0
    if op.kernel == "softmax":
        passes = tile_cycles(constants, op.kernel, result.data_format, tiles, op.numerics)
        return rates.softmax_row * max(1, tiles // tile_matrix(result.shape)[1]) + passes
    if op.kernel in ON_MATRIX_UNIT and rates.unpacked:
        size = max(FORMATS[desc.data_format].tile_bytes for desc in work.inputs)
        return rates.first_tile + tiles * 2 * size / rates.unpacked
    names = CHAINS.get(op.kernel, (op.kernel,))
    return sum(tile_cycles(constants, name, result.data_format, tiles, op.numerics) for name in names)


def _only_moves(op: Operation, inputs: Sequence[TensorDesc], result: TensorDesc) -> bool:
    """Whether no tile of an operation passes through unpack, math and pack."""
    if isinstance(op.params, LayoutParams):
        return (inputs[0].layout, inputs[0].data_format) == (result.layout, result.data_format)
    if isinstance(op.params, PermuteParams):
        return tuple(op.params.permutation[-1:]) == (len(op.params.permutation) - 1,)
    return isinstance(op.params, ReshapeParams | SliceParams | ConcatParams) or op.kernel == "embedding"


NOTHING = Stage(0.0, 0.0, False, 0.0)


def _reader(work: Work, split: Split) -> Stage:
    op, inputs, outputs = work.op, work.inputs, work.outputs
    rates, movement = CARD_RATES[work.system.arch], MOVEMENT[work.system.arch]
    moved = [
        (desc, size) for desc, size in zip(inputs, work.read, strict=True) if far(desc, outputs) and not _held(op, desc)
    ]
    if not moved:
        return NOTHING
    whole = sum(size for desc, size in moved if desc.buffer_type == "dram") / dram_rates(work.system)[0]
    latency = max(_from(desc, movement.dram_read, movement.l1_read).latency for desc, _ in moved)
    unit = 0.0
    for desc, size in moved:
        if op.kernel == "embedding":
            break  # its rows are read one by one
        transfers = _from(desc, movement.dram_read, movement.l1_read)
        page = pages_of(desc, work.profile)[1]
        pages = max(1.0, size / page / split.units)
        unit += pages * (rates.page + max(transfers.issue, page / transfers.stream))
    unit += _rearranged(work, split)
    if op.kernel in ON_MATRIX_UNIT and len(inputs) == 1:
        # Meanwhile the writer makes a tile of the scalar, once.
        unit = max(unit, TILE * TILE / 2 * rates.word / split.per_core - latency)
    if isinstance(op.params, LayoutParams) and outputs and outputs[0].layout == "row_major" != inputs[0].layout:
        unit += latency * (pages_of(inputs[0], work.profile)[0] / split.units - 1)  # it waits for each tile
    waits = not (outputs and shard_cores(outputs[0])) and not _by_rows(work)
    return Stage(latency, unit, waits, whole)


def _writer(work: Work, split: Split) -> Stage:
    op, inputs, outputs = work.op, work.inputs, work.outputs
    rates, movement = CARD_RATES[work.system.arch], MOVEMENT[work.system.arch]
    far = [desc for desc in outputs if not shard_cores(desc)]
    if not far:
        return NOTHING
    whole = work.dram_written / dram_rates(work.system)[1]
    latency = max(_from(desc, movement.dram_write, movement.l1_write).latency for desc in far)
    unit = 0.0
    for desc in far:
        transfers = _from(desc, movement.dram_write, movement.l1_write)
        count, page = pages_of(desc, work.profile)
        pages = count / split.units if op.kernel != "embedding" else 1.0  # each row while the next one is read
        unit += pages * (rates.page + max(transfers.issue, page / transfers.stream))
    if lines := _lines(work, split):
        unit = lines * rates.line
    if isinstance(op.params, LayoutParams) and inputs[0].layout == "row_major" != outputs[0].layout:
        unit += latency * max(0.0, pages_of(far[0], work.profile)[0] / split.units - 1)  # it waits for each tile
    return Stage(latency, unit, not _by_rows(work) and not any(map(shard_cores, inputs)), whole)


def _held(op: Operation, desc: TensorDesc) -> bool:
    """Whether an operand's shards are written to their new place by the cores that hold them."""
    return op.kernel == "to_memory_config" and bool(shard_cores(desc))


def _from(desc: TensorDesc, dram: Transfers, l1: Transfers) -> Transfers:
    return dram if desc.buffer_type == "dram" else l1


def _by_rows(work: Work) -> bool:
    """Whether a unit is a row of tiles, of which a core reads all before it waits."""
    params = work.op.params
    layout = isinstance(params, LayoutParams) and work.inputs[0].layout != work.result.layout
    return layout or isinstance(params, NormParams | SoftmaxParams)


def _rearranged(work: Work, split: Split) -> float:
    """Returns the cycles in which a reader puts a unit together beside reading its pages once."""
    op, inputs, outputs, profile = work.op, work.inputs, work.outputs, work.profile
    rates, movement = CARD_RATES[work.system.arch], MOVEMENT[work.system.arch]
    if isinstance(op.params, ReshapeParams) and outputs[0].layout == inputs[0].layout == "tile":
        segments, pages = _segments(inputs[0].shape, outputs[0].shape)
        reads = _from(inputs[0], movement.dram_read, movement.l1_read)
        again = rates.page + reads.latency + pages_of(inputs[0], profile)[1] / reads.stream
        return segments * rates.segment + (pages - 1) * again
    if op.kernel == "embedding":
        reads = _from(inputs[1], movement.dram_read, movement.l1_read)
        rows = min(FACE, math.prod(inputs[0].shape))
        row = rates.page + pages_of(inputs[1], profile)[1] / reads.stream
        return rows * row + (rows - 1) * reads.latency
    if isinstance(op.params, LayoutParams) and outputs and outputs[0].layout == "tile" != inputs[0].layout:
        return _filled_words(inputs[0], split) * rates.word
    return 0.0


def _filled_words(desc: TensorDesc, split: Split) -> float:
    """Words that fill up the last row of tiles, where a core has one."""
    rows, columns = (1, 1, *desc.shape)[-2:]
    size = FORMATS[desc.data_format].datum_bytes()
    if split.units == tile_matrix(desc.shape)[0]:
        width = -(-columns // TILE) * TILE
        missing = -rows % TILE * width + (width - columns) * min(rows, TILE)
    else:
        missing = -rows % TILE * TILE
    return missing * size / 4


def _segments(source: tuple[int, ...], result: tuple[int, ...]) -> tuple[float, float]:
    """Returns, for the fullest tile of a reshape's result, the rows of elements that it takes from single tiles of the
    operand, and how often it goes on to another tile of it.
    """
    before, after = (source or (1,))[-1], (result or (1,))[-1]
    rows = min(TILE, (1, 1, *result)[-2])
    if before == after and (1, 1, *source)[-2] % TILE == 0 == (1, 1, *result)[-2] % TILE:
        return 0.0, 1.0
    pieces = -(-min(TILE, after) // min(TILE, before))
    if before == after:
        return float(rows), 1.0 + (rows > 1)
    return float(rows * pieces), float(rows * pieces)


def _lines(work: Work, split: Split) -> float:
    """Returns the half rows of tiles that a core writes for each unit, where a permutation moves rows or elements."""
    op, inputs, outputs = work.op, work.inputs, work.outputs
    if not isinstance(op.params, PermuteParams) or outputs[0].layout != "tile":
        return 0.0
    order = op.params.permutation
    rank = len(order)
    if rank < 3 or order[-2:] in ((rank - 2, rank - 1), (rank - 1, rank - 2)):
        return 0.0
    rows = min(TILE, (1, 1, *inputs[0].shape)[-2])
    filled = -outputs[0].shape[-2] % TILE
    share = tile_matrix(inputs[0].shape)[0] * tile_matrix(inputs[0].shape)[1] / split.units
    return 2.0 * (min(1.0, share) * rows + filled)
