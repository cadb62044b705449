"""The program that the compiler writes and a device reads, as plain dataclasses.

`binary.py` turns these into the flatbuffer and back; `schema.fbs` mirrors them table by table. A kernel is named
by a string (`"add"`, `"matmul"`), so that a regular op is one row in `compiler/ops/` and needs no new schema; a
loader that does not know the name refuses the binary.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from opscope.compiler.target.fused_params import AttentionParams, CacheParams, NormParams, SoftmaxParams
from opscope.compiler.target.plan import Plan
from opscope.compiler.target.region_params import (
    BodyReduceParams,
    BodyWindowParams,
    CholeskyParams,
    CollectiveParams,
    ControlParams,
    Conv3dParams,
    IndexedRowsParams,
    RandomParams,
    ScatterParams,
    SelectScatterParams,
    SortParams,
    TopkParams,
    TriangularSolveParams,
)


@dataclass(frozen=True)
class TensorDesc:
    """One tensor of a program: what it is on the host or on the device."""

    shape: tuple[int, ...]
    element_type: str
    """MLIR element type of the tensor as the module declares it: f32, bf16, i32, i1, ..."""
    data_format: str
    """Number format it is held in there (`formats.py`): `Float32`, `Float16_b`, `Bfp8_b`, `Int32`, `UInt8`, ..."""
    layout: str
    """`tile` (32x32, last two dims padded) or `row_major`."""
    buffer_type: str
    """`dram`, `l1` or `system_memory` (host)."""
    memory_layout: str = "interleaved"
    """`interleaved`, `height_sharded`, `width_sharded`, `block_sharded`."""
    grid: tuple[int, int] = (1, 1)
    """Rows and columns of cores that hold shards; (1, 1) for interleaved and host tensors."""


@dataclass(frozen=True)
class Numerics:
    """How an op computes: formats of its operands and result, fidelity, destination register, accumulation."""

    fidelity: str = "HiFi4"
    """LoFi, HiFi2, HiFi2_B, HiFi3, HiFi4: phases of the matrix unit's multiplier."""
    dst_format: str = "Float32"
    """Format of the Dst register: `Float32` (fp32_dest_acc_en) or `Float16_b`."""
    k_block: int = 0
    """Tiles of the inner dimension between two roundings to `intermediate`; 0: all of them."""
    intermediate: str = "Float32"
    """Format of partial results between k blocks."""
    math_approx: bool = False


@dataclass(frozen=True)
class EltwiseParams:
    """Unary, binary, ternary elementwise, comparisons, where, typecast; operands broadcast as in NumPy."""

    scalars: tuple[float, ...] = ()
    """Scalar parameters in the kernel's order, e.g. (min, max) of clamp_scalar."""


@dataclass(frozen=True)
class MatmulParams:
    """`matmul`: batched matrix product of the last two dims; leading dims broadcast. `linear` adds input 2 to it."""

    transpose_a: bool = False
    transpose_b: bool = False
    activation: str = ""
    """Elementwise kernel that the result passes before it leaves Dst; empty: none."""


@dataclass(frozen=True)
class Conv2dParams:
    """Convolution, input NHWC, weight HWIO (I per group), output NHWC; no kernel reversal (cross-correlation).

    HWIO because its last two dims fill tiles, as the rows (KH KW I, O) of tt-metal's prepared weights do: a 1x1 window
    in OIHW would make a tile of every weight.
    """

    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    """Top, bottom, left, right; may be negative."""
    dilation: tuple[int, int]
    """Of the kernel."""
    input_dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    batch_groups: int = 1
    activation: str = ""
    """As in `MatmulParams`."""


@dataclass(frozen=True)
class Pool2dParams:
    """Window reduction over H and W of an NHWC tensor; kernel `max_pool2d`, `avg_pool2d` or `sum_pool2d`."""

    window: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    divisor: float = 1.0
    """`avg_pool2d` divides the sum by it."""


@dataclass(frozen=True)
class ReduceParams:
    """Reduction over `dims`; kernel `sum`, `max`, `min`, `mean`, `prod`, `reduce_and`, `reduce_or`, `argmax`."""

    dims: tuple[int, ...]
    keep_dim: bool = False


@dataclass(frozen=True)
class PermuteParams:
    """`permute`: result dim i is input dim permutation[i]."""

    permutation: tuple[int, ...]


@dataclass(frozen=True)
class ReshapeParams:
    """`reshape` to `shape`, row-major order kept."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class BroadcastParams:
    """`broadcast` (equal rank, dims of size 1 repeated) to `shape`."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class SliceParams:
    """`slice_static`: begins, ends, steps per dim."""

    begins: tuple[int, ...]
    ends: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class ConcatParams:
    """`concat` along `dim`."""

    dim: int


@dataclass(frozen=True)
class PadParams:
    """`pad`: per dim (low, high, interior) as StableHLO's pad; low, high may be negative; value: input 1 or `value`."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]
    value: float = 0.0


@dataclass(frozen=True)
class ReverseParams:
    """`reverse` of `dims`."""

    dims: tuple[int, ...]


@dataclass(frozen=True)
class FullParams:
    """`full`: a tensor of one value, given by the bytes of one element in its element type (little-endian)."""

    shape: tuple[int, ...]
    value: bytes


@dataclass(frozen=True)
class ConstantParams:
    """`constant`: all elements, row-major, in the element type's own bytes (i1: one byte each)."""

    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class ArangeParams:
    """`arange`: start + step * index along `dim`, broadcast over `shape`."""

    shape: tuple[int, ...]
    dim: int
    start: int = 0
    step: int = 1


@dataclass(frozen=True)
class GatherParams:
    """`gather` in StableHLO's general form (inputs: operand, start indices); `embedding` takes (indices, table)."""

    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    index_vector_dim: int = 0
    slice_sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class LayoutParams:
    """`to_layout`, `to_device`, `from_device`, `to_memory_config`, `deallocate`: the result's TensorDesc says what."""


@dataclass(frozen=True)
class HostParams:
    """`host_op`: a StableHLO module that the host computes, for types that the device has not."""

    module: bytes
    """MLIR bytecode; one function `main` from the operation's inputs to its outputs, all of them host tensors."""


@dataclass(frozen=True)
class TmsParams:
    """`tms`: TT-Buda's tensor manipulations of a tensor of z, rows, columns, as their names print.

    They move whole 32x32 tiles, filled up with zeros; `elements` is what is kept of the result.
    """

    tms: tuple[str, ...]
    elements: tuple[int, ...]


@dataclass(frozen=True)
class SparseMatmulParams:
    """`sparse_matmul`: a picker times a matrix of (1, rows, columns).

    The picker of a convolution's windows has, for each tap of the window, a row per output pixel, filled up to whole
    tiles. Any other one names the row that each row of its result is.
    """

    size: tuple[int, int] = (0, 0)
    window: tuple[int, int] = (0, 0)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Top, bottom, left, right."""
    dilation: tuple[int, int] = (1, 1)
    runs: tuple[int, ...] = ()
    """The rows, as runs (`runs.py`), of a picker that has no windows."""


@dataclass(frozen=True)
class EncodedMatmulParams:
    """`encoded_matmul`: sparse tiles, activations and an encoding that says which tile lies where.

    The encoding is tt-budabackend's of a matmul with `identity` (hlks/inc/matmul_ident.h): 16-bit words in 32-bit
    numbers, tile by tile, for each row of cores.
    """

    cores: int
    """Rows of cores, each with sparse tiles and an encoding of its own."""
    t: int
    mblock_m: int
    ublock_rt: int
    u_kt: int
    tile_bits: int
    """`sparse_tile_ptr_bits`: bits of a word that name a sparse tile; the others say its place in the micro block."""
    block_bits: int
    """`sparse_ublock_idx_bits`: bits of a word that name a micro block; the others count its tiles."""


Params = (
    EltwiseParams
    | MatmulParams
    | Conv2dParams
    | Pool2dParams
    | ReduceParams
    | PermuteParams
    | ReshapeParams
    | BroadcastParams
    | SliceParams
    | ConcatParams
    | PadParams
    | ReverseParams
    | FullParams
    | ConstantParams
    | ArangeParams
    | GatherParams
    | LayoutParams
    | ControlParams
    | ScatterParams
    | BodyReduceParams
    | BodyWindowParams
    | SelectScatterParams
    | SortParams
    | TopkParams
    | RandomParams
    | CholeskyParams
    | TriangularSolveParams
    | Conv3dParams
    | HostParams
    | TmsParams
    | SparseMatmulParams
    | CollectiveParams
    | SoftmaxParams
    | NormParams
    | AttentionParams
    | EncodedMatmulParams
    | CacheParams
    | IndexedRowsParams
)


def programs_of(params: Params) -> tuple[str, ...]:
    """Names of the programs that an operation with these parameters calls, in its kernel's order."""
    return getattr(params, "programs", ())


@dataclass(frozen=True)
class Operation:
    """One kernel call: reads tensors by id, writes tensors by id."""

    kernel: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: Params
    numerics: Numerics = Numerics()
    location: str = ""


@dataclass(frozen=True)
class Program:
    """Operations in execution order over a table of tensors.

    Inputs and outputs of the entry are host tensors, those of a called program device tensors. A body that a kernel
    applies element by element is a program of scalars, held in the precision of the Dst register.
    """

    name: str
    tensors: tuple[TensorDesc, ...]
    """Index = tensor id."""
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class Binary:
    """The whole file: what it was compiled for, and its programs (the first is the entry)."""

    board: str
    """The board whose system description it was compiled for: a device of another board refuses it."""
    arch: str
    programs: tuple[Program, ...] = field(default_factory=tuple)
    compiler: str = ""
    """Version of the compiler that wrote it."""
    plan: Plan = field(default_factory=Plan)
    """Where and when the entry's operations run; empty: one after another over all cores."""
    harvested: tuple[int, ...] = ()
    """Mask of the rows of cores that are switched off, for each chip of `chip_ids`; empty: only those of the board."""
    chip_ids: tuple[int, ...] = ()
    """The chips that the plan was made for; empty: chip 0, or those that the plan names."""
