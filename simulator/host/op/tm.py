"""Tensor manipulations (TMs). Dimensions from the right are columns, rows, Z and W."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.op.common import TILE, axis_of, dtype_name, op

PAD_MODES = {"constant": "constant", "replicate": "edge", "reflect": "reflect"}
"""TT-Buda's word -> NumPy's."""


def _with_z(value: Any) -> Any:
    return value[None] if value.ndim == 2 else value


def _parts(size: int, slices: int, what: str) -> int:
    if slices < 1 or size % slices:
        raise PyBudaError(f"expected a number of slices that divides {size} {what}, got {slices}")
    return size // slices


@op
def HSlice(name: str, operandA: Any, slices: int) -> Any:
    """Returns the columns cut into `slices` parts, which become Z."""
    a = _with_z(operandA)
    part = _parts(a.shape[-1], slices, "columns")
    a = jnp.moveaxis(a.reshape((*a.shape[:-1], slices, part)), -2, -3)
    return a.reshape((*a.shape[:-4], a.shape[-4] * slices, *a.shape[-2:]))


@op
def HStack(name: str, operandA: Any, slices: int = -1) -> Any:
    """Returns groups of `slices` along Z, by default all, side by side."""
    a = _with_z(operandA)
    slices = a.shape[-3] if slices == -1 else slices
    groups = _parts(a.shape[-3], slices, "slices along Z")
    a = jnp.moveaxis(a.reshape((*a.shape[:-3], groups, slices, *a.shape[-2:])), -3, -2)
    return a.reshape((*a.shape[:-2], slices * a.shape[-1]))


@op
def VSlice(name: str, operandA: Any, slices: int) -> Any:
    """Returns the rows cut into `slices` parts, which become Z."""
    a = _with_z(operandA)
    part = _parts(a.shape[-2], slices, "rows")
    return a.reshape((*a.shape[:-3], a.shape[-3] * slices, part, a.shape[-1]))


@op
def VStack(name: str, operandA: Any, slices: int = -1) -> Any:
    """Returns groups of `slices` along Z, by default all, one below the other."""
    a = _with_z(operandA)
    slices = a.shape[-3] if slices == -1 else slices
    groups = _parts(a.shape[-3], slices, "slices along Z")
    return a.reshape((*a.shape[:-3], groups, slices * a.shape[-2], a.shape[-1]))


@op
def Transpose(
    name: str,
    operandA: Any,
    dim0: int,
    dim1: int,
    z_dim_slice: int = -1,
    out_dtype: Any = "float32",
) -> Any:
    """Returns A with two dimensions exchanged; `z_dim_slice` is ignored, as in TT-Buda's golden."""
    a, b = axis_of(dim0, operandA.ndim), axis_of(dim1, operandA.ndim)
    if a == b:
        raise PyBudaError(f"expected two different dims, got {dim0} and {dim1}")
    moved = jnp.swapaxes(operandA, a, b)
    floating = jnp.issubdtype(moved.dtype, jnp.floating)
    return moved.astype(dtype_name(out_dtype)) if floating else moved


@op
def Reshape(name: str, operandA: Any, shape: tuple[int, ...]) -> Any:
    """Returns the same elements in another shape; one size may be -1."""
    return operandA.reshape(tuple(shape))


@op
def Index(name: str, operandA: Any, dim: int, start: int, stop: int | None = None, stride: int = 1) -> Any:
    """Returns the slices `start` up to `stop` (by default one) in steps along `dim`, which stays."""
    axis = axis_of(dim, operandA.ndim)
    size = operandA.shape[axis]
    end: int = start + 1 if stop is None else stop
    if end < 0:
        end += size
    if not (0 <= start < size and start < end <= size and 0 < stride <= size):
        raise PyBudaError(f"expected start, stop and stride within {size}, got {start}, {end}, {stride}")
    return operandA[(slice(None),) * axis + (slice(start, end, stride),)]


@op
def AdvIndex(name: str, operandA: Any, operandB: Any, dim: int = 0) -> Any:
    """Returns the slices of A along its first dimension that B numbers; B of more than one dimension adds one."""
    if axis_of(dim, operandA.ndim) != 0:
        raise PyBudaError(f"expected dim 0, got {dim}: TT-Buda has no other")
    index = operandB.astype(jnp.int32)
    if index.ndim < 2:
        return operandA[index]
    padded = operandA.ndim > index.ndim and operandA.shape[0] == 1
    return (operandA[0] if padded else operandA)[index][None]


@op
def Select(name: str, operandA: Any, dim: int, index: int | tuple[int, int], stride: int = 0) -> Any:
    """Returns `length` slices from `start` on (`index`: one number, or both) of every `stride` along `dim`.

    What lies behind the end is 0.
    """
    axis = axis_of(dim, operandA.ndim)
    size = operandA.shape[axis]
    start, length = (index, 1) if isinstance(index, int) else index
    stride = stride or size
    if not (0 <= start < size and length > 0 and start + length <= stride <= size):
        raise PyBudaError(f"expected start, length and stride within {size}, got {start}, {length}, {stride}")
    places = [at + i for at in range(0, size - start, stride) for i in range(start, start + length)]
    inside = [i for i in places if i < size]
    if inside == list(range(start, start + len(inside))):
        taken = operandA[(slice(None),) * axis + (slice(start, start + len(inside)),)]
    else:
        taken = jnp.take(operandA, jnp.asarray(inside), axis=axis)
    behind = [(0, len(places) - len(inside) if i == axis else 0) for i in range(operandA.ndim)]
    return jnp.pad(taken, behind) if len(places) > len(inside) else taken


@op
def Pad(
    name: str,
    operandA: Any,
    pad: tuple[int, ...],
    mode: str = "constant",
    channel_last: bool = False,
) -> Any:
    """Returns A with elements added left, right (and above, below): zeros, the edge (`replicate`) or its mirror."""
    if mode not in PAD_MODES:
        raise PyBudaError(f"expected mode {', '.join(PAD_MODES)}, got {mode!r}")
    if len(pad) not in (2, 4):
        raise PyBudaError(f"expected 2 or 4 numbers (left, right, top, bottom), got {list(pad)}")
    last = operandA.ndim - (2 if channel_last else 1)
    widths = [(0, 0)] * operandA.ndim
    for i in range(len(pad) // 2):
        widths[last - i] = (int(pad[2 * i]), int(pad[2 * i + 1]))
    return jnp.pad(operandA, widths, mode=PAD_MODES[mode])


@op
def PadTile(name: str, operandA: Any, dim: int, original_length: int) -> Any:
    """Returns A with zeros up to a whole tile along rows or columns."""
    axis = axis_of(dim, operandA.ndim)
    if axis < operandA.ndim - 2:
        raise PyBudaError(f"expected dim -1 or -2, got {dim}")
    return jnp.pad(operandA, [(0, -n % TILE if i == axis else 0) for i, n in enumerate(operandA.shape)])


@op
def Broadcast(name: str, operandA: Any, dim: int, shape: int) -> Any:
    """Returns A with `dim`, of size 1, repeated to the size `shape`."""
    a = operandA
    while a.ndim <= (-dim - 1 if dim < 0 else dim):
        a = a[None]
    axis = axis_of(dim, a.ndim)
    return jnp.broadcast_to(a, [shape if i == axis else n for i, n in enumerate(a.shape)])


@op
def Repeat(name: str, operandA: Any, factors: list[int]) -> Any:
    """Returns A repeated along each dimension."""
    if len(factors) != operandA.ndim:
        raise PyBudaError(f"expected {operandA.ndim} factors, got {list(factors)}")
    return jnp.tile(operandA, tuple(factors))


@op
def Unsqueeze(name: str, operandA: Any, dim: int) -> Any:
    """Returns A with a new dimension of size 1."""
    return jnp.expand_dims(operandA, dim)


@op
def Squeeze(name: str, operandA: Any, dim: int) -> Any:
    """Returns A without a dimension of size 1."""
    return jnp.squeeze(operandA, axis=axis_of(dim, operandA.ndim))


@op
def Narrow(name: str, operandA: Any, dim: int, start: int, length: int, original_length: int) -> Any:
    """Returns `length` slices from `start` on."""
    axis = axis_of(dim, operandA.ndim)
    if not (start >= 0 and length > 0 and start + length <= operandA.shape[axis]):
        raise PyBudaError(f"expected start and length within {operandA.shape[axis]}, got {start} and {length}")
    return operandA[(slice(None),) * axis + (slice(start, start + length),)]


@op
def PixelShuffle(name: str, operandA: Any, upscale_factor: int) -> Any:
    """Returns (N, C, H * r, W * r) of (N, C * r * r, H, W)."""
    *n, c, h, w = operandA.shape
    r = upscale_factor
    if r < 1 or c % (r * r):
        raise PyBudaError(f"expected channels that {r} squared divides, got {c}")
    a = operandA.reshape((*n, c // (r * r), r, r, h, w))
    a = jnp.moveaxis(jnp.moveaxis(a, -4, -2), -4, -1)
    return a.reshape((*n, c // (r * r), h * r, w * r))


@op
def BudaPad(name: str, operandA: Any, paddings: tuple[int, int], value: float) -> Any:
    """Returns A with whole tiles of `value` behind rows and columns, after zeros up to a whole tile."""
    padded, whole = operandA, [(0, 0)] * operandA.ndim
    tiles = [(0, 0)] * operandA.ndim
    for axis, count in zip((-2, -1), paddings, strict=True):
        if count > 0:
            whole[axis], tiles[axis] = (0, -operandA.shape[axis] % TILE), (0, count * TILE)
    padded = jnp.pad(padded, whole)
    return jnp.pad(padded, tiles, constant_values=value)


@op
def BudaUnpad(name: str, operandA: Any, original_length: tuple[int, ...], paddings: tuple[int, int]) -> Any:
    """Returns the first rows and columns, `original_length` of them."""
    rows, cols = original_length
    for axis, (length, count) in zip((-2, -1), zip(original_length, paddings, strict=True), strict=True):
        if count > 0 and operandA.shape[axis] != length + -length % TILE + count * TILE:
            raise PyBudaError(f"expected {length} elements and {count} tiles, got {operandA.shape[axis]}")
    return operandA[..., :rows, :cols]
