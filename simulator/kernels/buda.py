"""Kernels of the Buda route: tensor manipulations on the way between ops, and the gather of a convolution's windows.

Tensors have three dims, z, rows and columns. The network moves whole tiles, so a manipulation sees rows and columns
filled up to tiles with zeros.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np

from opscope.compiler.target.formats import TILE
from opscope.compiler.target.program import EltwiseParams, MatmulParams, SparseMatmulParams, TmsParams
from opscope.compiler.target.runs import rows_of
from opscope.simulator.kernels import special
from opscope.simulator.kernels.eltwise import operands
from opscope.simulator.kernels.matmul import activated, product_of
from opscope.simulator.kernels.registry import PASS, Call, Images, kernel, params_of

_TM = re.compile(r"(\w+)(?:\((\w+)(?:, (\d+))?(?:, ([-+.\de]+))?\))?")


def to_tiles(x: np.ndarray) -> np.ndarray:
    """Rows and columns filled up to whole tiles with zeros."""
    pad = [(0, 0), (0, -x.shape[1] % TILE), (0, -x.shape[2] % TILE)]
    return np.pad(x, pad) if any(after for _, after in pad) else x


def manipulate(x: np.ndarray, tm: str) -> np.ndarray:
    """Applies one manipulation, given as text, to whole tiles. Raises ValueError if it is unknown."""
    match = _TM.fullmatch(tm)
    name, first, second, third = (str(part) for part in match.groups()) if match else ("", "", "", "")
    z, r, c = x.shape
    match name:
        case "transpose":
            return np.swapaxes(x, 1, 2)
        case "hslice":
            n = int(first)
            return x.reshape(z, r, n, c // n).transpose(0, 2, 1, 3).reshape(z * n, r, c // n)
        case "vslice":
            return x.reshape(z * int(first), r // int(first), c)
        case "hstack":
            n = int(first)
            return x.reshape(z // n, n, r, c).transpose(0, 2, 1, 3).reshape(z // n, r, n * c)
        case "vstack":
            return x.reshape(z // int(first), int(first) * r, c)
        case "tile_broadcast":
            return np.repeat(x[:, ::TILE], TILE, axis=1) if first == "r" else np.repeat(x[:, :, ::TILE], TILE, axis=2)
        case "broadcast":
            return np.tile(x, {"z": (int(second), 1, 1), "r": (1, int(second), 1), "c": (1, 1, int(second))}[first])
        case "buda_pad":
            fill = 0.0 if third == "None" else float(third)
            return np.pad(x, [(0, 0), (0, int(first) * TILE), (0, int(second) * TILE)], constant_values=fill)
        case "buda_unpad":
            return x[:, : r - int(first) * TILE, : c - int(second) * TILE]
        case "expand" | "crop" | "clear":
            return _small_tiles(x, name, int(first), int(second))
    raise ValueError(f"tm: expected a manipulation such as hslice(4), got {tm!r}")


def _small_tiles(x: np.ndarray, name: str, height: int, width: int) -> np.ndarray:
    """Tiles of `height` x `width` filled up with zeros to 32x32, cut out of those, or what is outside them cleared."""
    if name == "clear":
        rows, cols = (np.arange(size) % TILE < kept for size, kept in zip(x.shape[1:], (height, width), strict=True))
        return np.where(rows[:, None] & cols, x, x.dtype.type(0))
    z, r, c = x.shape
    if name == "crop":
        cut = x.reshape(z, r // TILE, TILE, c // TILE, TILE)[:, :, :height, :, :width]
        return cut.reshape(z, r // TILE * height, c // TILE * width)
    split = x.reshape(z, r // height, height, c // width, width)
    filled = np.pad(split, [(0, 0), (0, 0), (0, TILE - height), (0, 0), (0, TILE - width)])
    return filled.reshape(z, r // height * TILE, c // width * TILE)


def resized(x: np.ndarray, elements: tuple[int, ...]) -> np.ndarray:
    """The first elements along each dim, zeros where there are no more."""
    x = x[tuple(slice(0, size) for size in elements)]
    pad = [(0, size - have) for size, have in zip(elements, x.shape, strict=True)]
    return np.pad(x, pad) if any(after for _, after in pad) else x


@kernel("tms", TmsParams, unit="move")
def tms(images: Images, call: Call) -> np.ndarray:
    """Manipulations one after another."""
    params = params_of(call, TmsParams)
    x = images[0]
    if params.tms:
        x = x if params.tms[0].startswith("expand") else to_tiles(x)
        for tm in params.tms:
            x = manipulate(x, tm)
    return resized(x, params.elements)


def picked_rows(params: SparseMatmulParams) -> np.ndarray:
    """The row of the image that each row of the result is; -1 for none."""
    if params.runs:
        return rows_of(params.runs)
    axes = range(2)
    low, high = (params.padding[0], params.padding[2]), (params.padding[1], params.padding[3])
    out = [
        (params.size[a] + low[a] + high[a] - (params.window[a] - 1) * params.dilation[a] - 1) // params.stride[a] + 1
        for a in axes
    ]
    per_tap = -(-out[0] * out[1] // TILE) * TILE
    rows = np.full((params.window[0] * params.window[1], per_tap), -1, np.int64)
    for tap, at in enumerate(product(range(params.window[0]), range(params.window[1]))):
        y, x = (np.arange(out[a]) * params.stride[a] + at[a] * params.dilation[a] - low[a] for a in axes)
        inside = ((y >= 0) & (y < params.size[0]))[:, None] & ((x >= 0) & (x < params.size[1]))[None, :]
        pixel = y[:, None] * params.size[1] + x[None, :]
        rows[tap, : out[0] * out[1]] = np.where(inside, pixel, -1).ravel()
    return rows.ravel()


@kernel("sparse_matmul", SparseMatmulParams, unit="matrix")
def sparse_matmul(images: Images, call: Call) -> np.ndarray:
    """Rows picked from the image: a product with zeros and ones, exact with two phases or more."""
    rows = picked_rows(params_of(call, SparseMatmulParams))
    if rows.max(initial=-1) >= images[0].shape[1]:
        raise ValueError(f"sparse_matmul: expected rows below {images[0].shape[1]}, got {rows.max()}")
    picked = images[0][:, np.maximum(rows, 0)]
    picked[:, rows < 0] = 0
    return picked


@kernel("depthwise", MatmulParams, unit="matrix", arity=2)
def depthwise(images: Images, call: Call) -> np.ndarray:
    """The product of a depthwise convolution: each tile of columns with its own tiles of weights, one per tap.

    The left operand has the taps side by side, each of whole tiles of channels; the right one has them one below the
    other, 32 rows each, in which channel c has its weight in row c % 32.
    """
    left, right = images
    taps, channels = right.shape[1] // TILE, right.shape[2]
    tiles = -(-channels // TILE)
    if right.shape[1] % TILE or left.shape[2] != taps * tiles * TILE:
        raise ValueError(f"depthwise: expected {taps} taps of {tiles} tiles side by side, got {left.shape[2]} columns")
    right = np.pad(right, [(0, 0), (0, 0), (0, tiles * TILE - channels)])
    a = left.reshape(*left.shape[:2], taps, tiles, TILE).transpose(0, 3, 1, 2, 4)
    b = right.reshape(right.shape[0], taps * TILE, tiles, TILE).transpose(0, 2, 1, 3)
    product = product_of(a.reshape(*a.shape[:3], taps * TILE), b, call)
    product = product.transpose(0, 2, 1, 3).reshape(*left.shape[:2], tiles * TILE)[:, :, :channels]
    return activated(product, params_of(call, MatmulParams).activation, call)


def depthwise_columns(columns: int, taps: int, part: slice) -> np.ndarray:
    """The columns of a depthwise product's left operand that the columns `part` of its result, whole tiles, need."""
    step = columns // taps
    own = np.arange(part.start, min(step, part.start + -(-(part.stop - part.start) // TILE) * TILE))
    return (np.arange(taps)[:, None] * step + own[None, :]).ravel()


@kernel("gelu_derivative", EltwiseParams, max_ulp=4, rounds=False)
def gelu_derivative(images: Images, call: Call) -> np.ndarray:
    """Phi(x) + x phi(x), the slope of `gelu`."""
    (x,) = operands(images, call)
    return special.gelu_derivative(x)


@kernel("threshold_relu", EltwiseParams, cycles=PASS)
def threshold_relu(images: Images, call: Call) -> np.ndarray:
    """The packer's relu of mode `min`: 0 below the scalar, and never below 0."""
    (x,) = operands(images, call)
    threshold = x.dtype.type(params_of(call, EltwiseParams).scalars[0])
    return np.where(x >= threshold, np.maximum(x, x.dtype.type(0)), x.dtype.type(0))


@kernel("requantization", EltwiseParams, arity=2)
def requantization(images: Images, call: Call) -> np.ndarray:
    """Product of float32 operands plus the scalar, to the nearest of the integers from -127 to 127, ties away from 0.

    Integers have sign and size there, so that -128 is none of them.
    """
    x, scale = operands(images, call)
    value = x * scale + np.float32(params_of(call, EltwiseParams).scalars[0])
    whole = np.trunc(value)
    return np.clip(np.where(np.abs(value - whole) >= 0.5, whole + np.sign(value), whole), -127, 127).astype(np.float32)


@kernel("dequantization", EltwiseParams, arity=2, max_ulp=1)
def dequantization(images: Images, call: Call) -> np.ndarray:
    """The first operand less the scalar, times the second, in float32."""
    x, scale = operands(images, call)
    return (x - np.float32(params_of(call, EltwiseParams).scalars[0])) * scale
