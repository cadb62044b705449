"""Movements that tt-mlir names, in permute, reshape, broadcast, concat and slice_static."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit
from opscope.compiler.passes.ttir_to_ttir_decomposition.patterns import along, decomposes, sliced


@decomposes("transpose")
def transpose(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Swaps two dims."""
    (x,) = e.operands
    order = list(range(len(shape_of(x))))
    a, b = (along(len(order), attrs[name]) for name in ("dim0", "dim1"))
    order[a], order[b] = order[b], order[a]
    return e.permute(x, order)


@decomposes("squeeze", "unsqueeze")
def squeeze(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Drops or adds a dim of size 1."""
    return e.reshape(e.operands[0], e.result_shape)


@decomposes("repeat")
def repeat(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Copies along each dim: a broadcast of dims of size 1, copies joined of others."""
    (x,) = e.operands
    shape, counts = shape_of(x), attrs["repeat_dimensions"]
    for dim, (n, count) in enumerate(zip(shape, counts, strict=True)):
        if n != 1 and count != 1:
            joined = [*shape_of(x)]
            joined[dim] = n * count
            x = e.emit("concat", [x] * count, e.like(x, tuple(joined)), dim=dim)
    return e.broadcast(x, [n * count for n, count in zip(shape, counts, strict=True)])


@decomposes("repeat_interleave")
def repeat_interleave(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Each element of a dim several times in a row."""
    (x,) = e.operands
    return interleaved(e, x, along(len(shape_of(x)), attrs["dim"]), attrs["repeats"])


def interleaved(e: Emit, x: SSAValue, dim: int, count: int) -> SSAValue:
    """Repeats each element of `dim` by a new dim beside it, which is then folded in."""
    shape = shape_of(x)
    apart = e.reshape(x, [*shape[: dim + 1], 1, *shape[dim + 1 :]])
    wide = e.broadcast(apart, [*shape[: dim + 1], count, *shape[dim + 1 :]])
    return e.reshape(wide, [*shape[:dim], shape[dim] * count, *shape[dim + 1 :]])


@decomposes("index")
def index(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """A slice along one dim."""
    (x,) = e.operands
    return sliced(e, x, along(len(shape_of(x)), attrs["dim"]), attrs["begin"], attrs["end"], attrs["step"])


@decomposes("index_select")
def index_select(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """`length` elements from `begin` on, again every `stride` elements, joined."""
    (x,) = e.operands
    dim = along(len(shape_of(x)), attrs["dim"])
    size, begin, length = shape_of(x)[dim], attrs["begin"], attrs["length"]
    stride = attrs.get("stride", 0) or size
    parts = [sliced(e, x, dim, at, at + length) for at in range(begin, size - length + 1, stride)]
    return parts[0] if len(parts) == 1 else e.emit("concat", parts, e.result_type, dim=dim)


@decomposes("concatenate_heads")
def concatenate_heads(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """[batch, heads, length, size] -> [batch, length, heads * size]."""
    (x,) = e.operands
    return e.reshape(e.permute(x, [0, 2, 1, 3]), e.result_shape)


@decomposes("upsample2d")
def upsample2d(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Nearest neighbours of an NHWC image. Raises StageFailure for another mode."""
    if attrs.get("mode", "nearest") != "nearest":
        raise e.refuse(f"expected mode nearest, got {attrs['mode']}")
    scale, (x,) = attrs["scale_factor"], e.operands
    if isinstance(scale, IntegerAttr):
        factors = (int(scale.value.data),) * 2
    elif isinstance(scale, DenseArrayBase):
        factors = tuple(int(v) for v in scale.get_values())
    else:
        raise e.refuse(f"expected one or two integers as scale_factor, got {scale}", "error")
    for dim, count in zip((1, 2), factors, strict=True):
        x = interleaved(e, x, dim, count)
    return x


@decomposes("global_avg_pool2d")
def global_avg_pool2d(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """The mean over height and width of an NHWC image, which stay as dims of size 1."""
    (x,) = e.operands
    kept = prod(e.result_shape) == prod(shape_of(x)) // prod(shape_of(x)[1:3])
    if not kept:
        raise e.refuse(f"expected a result without height and width, got {e.result_type}", "error")
    return e.reshape(
        e.emit("mean", [x], e.like(x, (shape_of(x)[0], 1, 1, shape_of(x)[3])), dim_arg=(1, 2), keep_dim=True),
        e.result_shape,
    )
