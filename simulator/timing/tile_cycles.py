"""Cycles of any kernel on one core's block: by measured constants, or as the sum of kernels that have some."""

from __future__ import annotations

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.program import Numerics
from opscope.simulator.kernels import KERNELS
from opscope.simulator.timing.block_work import BlockWork
from opscope.simulator.timing.constants import Constants
from opscope.simulator.timing.kernel_cycles import data_path, has, kernel_cycles, nearest, path_of, width_of

COMPOSED: dict[str, tuple[str, ...]] = {
    "rsqrt": ("sqrt", "reciprocal"),
    "divide": ("reciprocal", "maximum"),
    "expm1": ("exp",),
    "log1p": ("log",),
    "silu": ("sigmoid", "maximum"),
    "tan": ("sin",),
    "erf": ("exp", "reciprocal"),
    "erfc": ("exp", "reciprocal"),
    "atan2": ("reciprocal", "sin"),
    "cbrt": ("log", "exp"),
    "remainder": ("reciprocal", "maximum"),
    "erfinv": ("log", "sqrt"),
    "exp2": ("exp",),
    "minimum": ("maximum",),
    "pow_tensor": ("pow_scalar",),
    "gelu_tanh": ("tanh", "square"),
    "relu": ("maximum",),
    "max": ("reduce r",),
    "splice": ("typecast",),
    # 20 rounds of three instructions; a step of a recurrence is a product, a sum and a division.
    "rng_bit_generator": ("abs",) * 20,
    "cholesky": ("reciprocal",),
    "triangular_solve": ("reciprocal",),
}
"""Functions without a published figure -> the functions that they consist of."""
FUSED: dict[str, tuple[str, ...]] = {
    "softmax": ("max", "subtract", "exp", "sum", "multiply"),
    "rms_norm": ("multiply", "sum", "multiply", "multiply"),
    "layer_norm": ("sum", "subtract", "multiply", "sum", "multiply", "multiply", "add"),
    "rotary_embedding": ("multiply", "multiply", "add"),
    "cumsum": ("add",),
    "cumprod": ("multiply",),
    "cummax": ("maximum",),
    "cummin": ("maximum",),
    "batch_norm_inference": ("subtract", "rsqrt", "multiply", "multiply", "add"),
    "batch_norm_training": ("sum", "subtract", "multiply", "sum", "rsqrt", "multiply", "multiply", "add"),
}
"""Kernels that run others on the tiles that they hold: they save launches and transfers, not passes."""
TWO_OPERANDS = frozenset({"add", "subtract", "multiply", "maximum", "minimum"})
BY_UNIT = {"move": "typecast", "matrix": "reduce r"}
"""Unit that does a kernel -> the measured kernel that it costs as much as."""
BY_PLAN = frozenset({"sparse_matmul"})
"""Kernels whose constants need the blocks of a plan; without one they cost a pass of their unit."""
SFPU_DEFAULT = "abs"
"""Every other SFPU function: a pass of a few instructions per 32 lanes, like abs."""


def parts_of(constants: Constants, kernel: str, approximate: bool = False) -> tuple[str, ...]:
    """Returns the kernels with constants that one costs as much as."""
    if kernel in FUSED:
        return tuple(part for name in FUSED[kernel] for part in parts_of(constants, name, approximate))
    if approximate and has(constants, f"{kernel} approx"):
        return (f"{kernel} approx",)
    if has(constants, kernel):
        return (kernel,)
    if kernel in COMPOSED:
        return tuple(part for name in COMPOSED[kernel] for part in parts_of(constants, name, approximate))
    unit = KERNELS[kernel].unit if kernel in KERNELS else "sfpu"  # an activation may be a kernel's variant
    return (BY_UNIT.get(unit, SFPU_DEFAULT),)


def block_cycles(
    constants: Constants, kernel: str, work: BlockWork, width: str, *, approximate: bool = False, l1_acc: bool = False
) -> float:
    """Returns the cycles of one core for a block of any kernel."""
    return sum(
        kernel_cycles(constants, part, work, width, l1_acc=l1_acc) for part in parts_of(constants, kernel, approximate)
    )


def tile_cycles(constants: Constants, kernel: str, data_format: str, tiles: int, numerics: Numerics) -> float:
    """Returns the cycles of one core for `tiles` tiles of an op that is not a product."""
    if kernel in BY_PLAN:
        kernel = BY_UNIT["matrix"]
    work = _micro_blocks(kernel, data_format, tiles)
    return block_cycles(constants, kernel, work, width(data_format), approximate=numerics.math_approx)


def tile_unit(constants: Constants, kernel: str, data_format: str, numerics: Numerics) -> str:
    """Returns the thread that takes longest for tiles of such an op: `math`, or `unpack` where the path of data does,
    on which unpacking and packing were measured as one.
    """
    work, key = _micro_blocks(kernel, data_format, 8), width(data_format)
    moving = computing = 0.0
    for part in parts_of(constants, kernel, numerics.math_approx):
        own = constants.kernels.get(part)
        if own is None:
            return "math"  # reductions, whose formulas do not tell
        each = nearest(own, key)
        moving += data_path(work, path_of(constants, work.operands, key))
        computing += max(each.ublock + work.ublock_tiles * each.tile, work.ublock_tiles * each.busy)
    return "unpack" if moving > computing else "math"


def _micro_blocks(kernel: str, data_format: str, tiles: int) -> BlockWork:
    """Tiles in micro blocks that fill half of Dst: 8 tiles of 16 bits or 4 of 32."""
    fmt = FORMATS[data_format]
    most = 4 if fmt.bits == 32 else 8
    return BlockWork(
        mblock_m=-(-tiles // most),
        ublock_ct=min(most, tiles),
        bits=fmt.bits,
        operands=2 if kernel in TWO_OPERANDS else 1,
    )


def width(data_format: str) -> str:
    """Returns the key of a format's width in the tables of constants."""
    fmt = FORMATS[data_format]
    return width_of(fmt.bits, fmt.is_float)
