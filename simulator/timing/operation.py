"""Cycles of one operation that no plan places, from physical figures with their sources.

An operation's tiles are dealt to the cores of the grid. An elementwise op streams, so that it takes the larger of
compute and transfer. A matrix product is cut and timed as `product_time.py` says; convolutions, attention and products
of many pairs of matrices read from DRAM, multicast operands and compute one after another. What lies in L1 costs no
DRAM transfer, and no NoC transfer where each core reads its own shard. A launch costs a fixed time. Operations run one
after another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from opscope.compiler.target.formats import FORMATS, TILE, padded_tiles
from opscope.compiler.target.fused_params import CacheParams
from opscope.compiler.target.in_place import writes_in_place
from opscope.compiler.target.product_blocks import Product, product_of
from opscope.compiler.target.program import (
    AttentionParams,
    ControlParams,
    Conv2dParams,
    Conv3dParams,
    MatmulParams,
    Operation,
    Program,
    TensorDesc,
)
from opscope.compiler.target.system_desc import Profile, SystemDesc
from opscope.simulator.kernels.matmul import FIDELITIES
from opscope.simulator.profile import OpCost
from opscope.simulator.timing.arch_constants import CONSTANTS
from opscope.simulator.timing.body_passes import body_passes
from opscope.simulator.timing.card_rates import dram_cycles
from opscope.simulator.timing.conv_time import conv_time
from opscope.simulator.timing.movement import MOVEMENT
from opscope.simulator.timing.product_time import product_time, relay_time
from opscope.simulator.timing.streamed import far, streamed, streamed_compute
from opscope.simulator.timing.tile_cycles import tile_cycles, tile_unit
from opscope.simulator.timing.work_split import OPEN, Asked, Work, split_of

LAUNCH_NS = 3000.0
"""Time from one program to the next with trace on: the intercept of the out-of-box GEMM rows (GEMM_FLOPS.md). The start
of the kernels (`CardRates.start`) is a part of it, dispatch the rest.
"""

HOST_KERNELS = frozenset({"to_device", "from_device", "deallocate", "host_op", "view"})
"""Kernels that take no time of the device: the host's, and those that move nothing."""


READBACK_NS = 10_000.0
"""Time in which the host reads a predicate and launches the chosen program: the least time of a small op without a
trace."""


def operation_cost(
    op: Operation,
    program: Program,
    system: SystemDesc,
    profile: Profile,
    programs: Mapping[str, Program] | None = None,
    asked: Asked = OPEN,
) -> OpCost:
    """Cycles of one operation on one chip of the board. For control flow, those of reading one predicate back.

    `programs`: those that it may call. `asked`: what a caller says of cores, blocks and constants.
    """
    if op.kernel in ("load_cached", "for"):  # no predicate is read back
        return OpCost(op.kernel, op.location)
    if isinstance(op.params, ControlParams):
        wait = math.ceil(READBACK_NS * system.clock_ghz)
        return OpCost(op.kernel, op.location, wait, launch_cycles=wait)
    inputs = [program.tensors[t] for t in op.inputs]
    outputs = [program.tensors[t] for t in op.outputs]
    if isinstance(op.params, CacheParams) and writes_in_place(op, program):
        # Of the cache only the tiles that are written to move: they are read, changed and written back.
        inputs[0] = outputs[0] = _written(op, inputs)
    on_device = [d for d in (*inputs, *outputs) if d.buffer_type != "system_memory"]
    if op.kernel in HOST_KERNELS or len(on_device) < len(inputs) + len(outputs) or not on_device:
        return OpCost(op.kernel, op.location)
    launch = LAUNCH_NS * system.clock_ghz
    if outputs and not any(math.prod(desc.shape) for desc in outputs):  # no core has a tile to make
        return OpCost(op.kernel, op.location, math.ceil(launch), launch_cycles=math.ceil(launch))
    work = Work(op, inputs, outputs, system, profile)
    time = _time(work, programs or {}, asked)
    return OpCost(
        op.kernel,
        op.location,
        math.ceil(time.total + launch),
        math.ceil(time.compute),
        math.ceil(time.transfer),
        math.ceil(launch),
        work.dram_read() if time.dram_read is None else time.dram_read,
        work.dram_written,
        int(time.received),
        time.cores,
        time.unit,
        math.ceil(time.write),
        started_cores=max(time.started, time.cores),
    )


@dataclass(frozen=True)
class _Time:
    """The cycles of an operation without its launch, and where they go."""

    total: float
    compute: float
    transfer: float
    received: float
    """Bytes that a core receives."""
    cores: int
    unit: str = "math"
    """What the cores work at longest."""
    write: float = 0.0
    started: int = 0
    dram_read: int | None = None
    """Bytes, where they are others than those of its operands."""


def _time(work: Work, programs: Mapping[str, Program], asked: Asked) -> _Time:
    params, kernel = work.op.params, work.op.kernel
    if isinstance(params, MatmulParams) and kernel != "depthwise":
        product = product_of(params, work.inputs[0], work.inputs[1], work.outputs[0], work.op.numerics)
        if product is not None:
            return _plain_product(work, product, asked)
    if isinstance(params, Conv2dParams) and _is_plain(params):
        return _plain_convolution(work, params, asked)
    if isinstance(params, AttentionParams):
        return _in_phases(work, *_attention(work))
    if isinstance(params, MatmulParams | Conv2dParams | Conv3dParams):
        return _in_phases(work, *_product(work))
    return _streamed(work, programs, asked)


def _plain_product(work: Work, product: Product, asked: Asked) -> _Time:
    """A product, or several of one size, as tt-metal cuts it."""
    if asked.relay is not None:
        time = relay_time(product, work.system, asked.relay)
    else:
        time = product_time(product, work.system, work.profile, asked)
    in_dst = _in_dst_cycles(work, -(-(product.rows * product.columns * product.batches) // time.cores))
    return _Time(
        time.total + in_dst,
        time.compute + in_dst,
        time.transfer,
        time.noc_bytes,
        time.cores,
        time.unit if time.compute > in_dst else "math",
        time.write,
        dram_read=time.dram_read_bytes + work.dram_read(2),
    )


def _is_plain(params: Conv2dParams) -> bool:
    """Whether a convolution is one product of windows and weights."""
    return params.groups == params.batch_groups == 1 and params.input_dilation == (1, 1)


def _plain_convolution(work: Work, params: Conv2dParams, asked: Asked) -> _Time:
    """A convolution that is one product, as tt-metal cuts it."""
    conv = conv_time(params, work, asked)
    per_core = -(-padded_tiles(work.outputs[0].shape) // conv.cores)
    compute = conv.windows + conv.product + _in_dst_cycles(work, per_core)
    moved = work.read[0] if work.inputs[0].buffer_type == "dram" else 0
    transfer = conv.weights + dram_cycles(work.system, moved, work.dram_written)
    return _Time(compute + transfer, compute, transfer, conv.noc_bytes, conv.cores, started=conv.started)


def _in_phases(work: Work, compute: float, received: float, cores: int) -> _Time:
    """What reads from DRAM, multicasts and computes one after another.

    Out of the box the phases do not overlap: their sum fits the measured rows, the largest of them does not.
    """
    multicast = MOVEMENT[work.system.arch].multicast.to(max(1, cores - 1)).cycles(1, received)
    transfer = dram_cycles(work.system, work.dram_read(), work.dram_written) + multicast
    return _Time(compute + transfer, compute, transfer, received, cores)


def _streamed(work: Work, programs: Mapping[str, Program], asked: Asked) -> _Time:
    """What a reader, the compute threads and a writer do at the same time."""
    op, system, result = work.op, work.system, work.result
    split = split_of(work, asked)
    tiles = max(padded_tiles(d.shape) for d in (work.outputs if work.picks else (*work.inputs, *work.outputs)))
    per_core = math.ceil(tiles / split.units * split.per_core)
    passes = body_passes(op, work.inputs, work.outputs, programs)
    unit = "math"
    if passes is None:
        compute = streamed_compute(work, per_core)
        unit = tile_unit(CONSTANTS[system.arch], op.kernel, result.data_format, op.numerics)
    else:
        steps = (_tile_cycles(step, within.tensors[step.outputs[0]], per_core, system) for step, within in passes.steps)
        compute = passes.count * sum(steps)
    streams = streamed(work, split, compute)
    received = sum(size for desc, size in zip(work.inputs, work.read, strict=True) if far(desc, work.outputs))
    return _Time(
        streams.total, compute, streams.transfer, received / split.cores, split.cores, unit, started=split.started
    )


def sharded(desc: TensorDesc) -> bool:
    """Whether a tensor lies in shards on a grid of cores."""
    return desc.buffer_type == "l1" and desc.memory_layout != "interleaved"


def _written(op: Operation, inputs: list[TensorDesc]) -> TensorDesc:
    """The rows of tiles of a cache that a write touches, as a tensor: those of one position, or all that are filled."""
    cache, new = inputs[:2]
    if op.kernel == "paged_update_cache":
        parts, rows = new.shape[1] * cache.shape[1], TILE
    elif op.kernel == "paged_fill_cache":
        block = cache.shape[2]
        parts, rows = new.shape[0] * cache.shape[1] * -(-new.shape[2] // block), min(block, new.shape[2])
    else:
        parts, rows = new.shape[0] * new.shape[1], TILE if op.kernel == "update_cache" else new.shape[2]
    return replace(cache, shape=(parts, rows, cache.shape[3]))


def _tile_cycles(op: Operation, out: TensorDesc, tiles: int, system: SystemDesc) -> float:
    return tile_cycles(CONSTANTS[system.arch], op.kernel, out.data_format, tiles, op.numerics)


def _product(work: Work) -> tuple[float, float, int]:
    """Compute cycles, bytes that each core receives, and cores of a matrix product or convolution."""
    op, out, system, profile = work.op, work.outputs[0], work.system, work.profile
    left, right = work.inputs[:2]
    if isinstance(op.params, Conv2dParams | Conv3dParams):
        *window, per_group, channels = right.shape
        groups = max(op.params.groups, op.params.batch_groups)
        rows, cols, depth = math.prod(out.shape[:-1]), channels // groups, per_group * math.prod(window)
        batch = groups if op.params.batch_groups == 1 else 1
    else:
        rows, cols = (out.shape[-2] if len(out.shape) > 1 else 1), (out.shape[-1] if out.shape else 1)
        transposed = isinstance(op.params, MatmulParams) and op.params.transpose_a
        depth = (left.shape[-2] if transposed else left.shape[-1]) if left.shape else 1
        if op.kernel == "depthwise":  # Each tile of columns meets its own tiles of weights alone.
            depth = right.shape[-2]
        batch = math.prod(out.shape[:-2])
    m, n, k = (max(1, -(-size // TILE)) for size in (rows, cols, depth))
    grid_rows, grid_cols = min(profile.grid[0], m), min(profile.grid[1], n)
    # With few rows or columns of tiles, the product is laid out along one line of cores instead (1-D multicast).
    spread = max(grid_rows * grid_cols, min(profile.cores, m), min(profile.cores, n))
    if batch > 1:
        spread = min(profile.cores, batch * m * n)
    per_core = -(-(batch * m * n) // spread)
    phases = FIDELITIES[op.numerics.fidelity]
    compute = per_core * k * system.cycles_per_tile_matmul * phases
    m_core, n_core = -(-m // grid_rows), -(-n // grid_cols)
    if batch > 1:
        m_core, n_core = m, per_core / m
    elif spread > grid_rows * grid_cols:
        m_core, n_core = (-(-m // spread), n) if m >= n else (m, -(-n // spread))
    if sharded(out):
        # The shards determine each core's part of the result; rows that only pad an image's width are not computed.
        m_core, n_core = -(-batch * m // min(out.grid[0], batch * m)), -(-n // min(out.grid[1], n))
        spread = min(out.grid[0], batch * m) * min(out.grid[1], n)
        compute = m_core * n_core * k * system.cycles_per_tile_matmul * phases
        per_core = m_core * n_core
    rows_here = sharded(left) and left.memory_layout == out.memory_layout == "height_sharded" and left.grid == out.grid
    received = k * n_core * FORMATS[right.data_format].tile_bytes
    received += 0 if rows_here else k * m_core * FORMATS[left.data_format].tile_bytes
    compute += _in_dst_cycles(work, per_core)
    return float(compute), float(received), spread


def _in_dst_cycles(work: Work, tiles: int) -> float:
    """Cycles of what is done with a result of so many tiles while it is in Dst. ReLU is the packer's: free."""
    activation = getattr(work.op.params, "activation", "")
    names = [*(["add"] if len(work.inputs) > 2 else []), *({activation} - {"", "relu"})]
    return sum(_tile_cycles(replace(work.op, kernel=name), work.outputs[0], tiles, work.system) for name in names)


def _attention(work: Work) -> tuple[float, float, int]:
    """Like `_product`, for two products per head with a softmax between them; scores stay on their core.

    With one position of each user, the heads that share keys are the rows of a product, and all of a cache is read: how
    much of it holds something is known at run time only.
    """
    op, out = work.op, work.outputs[0]
    query, key, value = work.inputs[:3]
    if op.kernel.endswith("_decode"):
        users, heads = query.shape[1:3]
        if op.kernel.startswith("paged"):
            seen = work.inputs[3].shape[1] * key.shape[2]
            key, value = (replace(d, shape=(users, d.shape[1], seen, d.shape[3])) for d in (key, value))
        query = replace(query, shape=(users, key.shape[1], heads // key.shape[1], query.shape[3]))
        out = replace(out, shape=(*query.shape[:3], out.shape[3]))
    scores = replace(out, memory_layout="interleaved", shape=(*query.shape[:-1], key.shape[-2]))
    turned = replace(key, shape=(*key.shape[:-2], key.shape[-1], key.shape[-2]))
    plain = replace(work, op=replace(op, params=MatmulParams()))
    first, received, cores = _product(replace(plain, inputs=(query, turned), outputs=(scores,)))
    second, more, _ = _product(replace(plain, inputs=(scores, value), outputs=(out,)))
    # The second product's left operand is already on its core.
    more -= min(more, received)
    tiles = -(-padded_tiles(scores.shape) // cores)
    softmax = _tile_cycles(replace(op, kernel="softmax"), scores, tiles, work.system)
    return first + softmax + second, received + more, cores
