"""Cycles of any kernel on one core's block: by measured constants, or as the sum of kernels that have some."""

from __future__ import annotations

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.program import Numerics
from opscope.simulator.kernels import KERNELS
from opscope.simulator.timing.block_work import BlockWork
from opscope.simulator.timing.constants import Constants
from opscope.simulator.timing.kernel_cycles import data_path, has, kernel_cycles, nearest, path_of, width_of

VARIANTS: dict[str, tuple[str, ...]] = {"gelu_tanh": ("tanh", "square"), "splice": ("typecast",)}
"""Variants of kernels -> the kernels that they cost as much as."""
TWO_OPERANDS = frozenset({"add", "subtract", "multiply", "maximum", "minimum"})
BY_UNIT = {"move": "typecast", "matrix": "reduce r", "control": "abs", "host": "abs"}
"""Unit that does a kernel, whatever its function -> the measured kernel that it costs as much as."""
BY_PLAN = frozenset({"sparse_matmul"})
"""Kernels whose constants need the blocks of a plan; without one they cost a pass of their unit."""


def parts_of(constants: Constants, kernel: str, approximate: bool = False) -> tuple[str, ...]:
    """Returns the kernels with constants that one costs as much as. Raises KeyError for an unknown kernel."""
    if approximate and has(constants, f"{kernel} approx"):
        return (f"{kernel} approx",)
    if has(constants, kernel):
        return (kernel,)
    names = VARIANTS.get(kernel) or KERNELS[kernel].cycles
    if names:
        return tuple(part for name in names for part in parts_of(constants, name, approximate))
    return (BY_UNIT[KERNELS[kernel].unit],)


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
