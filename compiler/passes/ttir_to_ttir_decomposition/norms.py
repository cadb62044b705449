"""Batch and group normalisation, written in simpler ops."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.batch_norm import normalise, statistics
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit
from opscope.compiler.passes.ttir_to_ttir_decomposition.patterns import binary, decomposes, unary


@decomposes("batch_norm_inference")
def batch_norm_inference(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Normalises with the given mean and variance."""
    value, scale, offset, mean, variance = (_vector(e, v, attrs["dimension"], i) for i, v in enumerate(e.operands))
    return normalise(e, value, (scale, offset, mean, variance), attrs["dimension"], attrs["epsilon"])


@decomposes("batch_norm_training")
def batch_norm_training(e: Emit, attrs: dict[str, Any]) -> list[SSAValue]:
    """Normalises with the batch's own mean and variance; the running ones move towards them by `momentum`."""
    value, scale, offset, old_mean, old_variance = (
        _vector(e, v, attrs["dimension"], i) for i, v in enumerate(e.operands)
    )
    dim, momentum = attrs["dimension"], attrs["momentum"]
    mean, variance = statistics(e, value, scale.type, dim)
    result = normalise(e, value, (scale, offset, mean, variance), dim, attrs["epsilon"])

    def moved(old: SSAValue, new: SSAValue) -> SSAValue:
        if momentum == 1.0:
            return new
        return binary(e, "add", binary(e, "multiply", old, 1.0 - momentum), binary(e, "multiply", new, momentum))

    running = [moved(old_mean, mean), moved(old_variance, variance)]
    return [result, *(e.reshape(v, shape_of(r)) for v, r in zip(running, e.op.results[1:], strict=True))]


def _vector(e: Emit, value: SSAValue, dim: int, place: int) -> SSAValue:
    """Operands after the first lie along one dim; tt-mlir's may have the others with size 1."""
    return value if place == 0 else e.reshape(value, [shape_of(e.operands[0])[dim]])


@decomposes("group_norm")
def group_norm(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Normalises each group of channels, then scales and moves each channel."""
    value, *vectors = e.operands
    shape, groups = shape_of(value), attrs["num_groups"]
    channel = attrs.get("channel_dim", 1) % len(shape)
    order = [0, channel, *(i for i in range(1, len(shape)) if i != channel)]
    moved = e.permute(value, order)
    inside = prod(shape[1:]) // groups
    flat = e.reshape(moved, [shape[0], groups, inside])
    along = e.like(value, (shape[0], groups, 1))

    def mean(x: SSAValue) -> SSAValue:
        return e.emit("mean", [x], along, dim_arg=[2], keep_dim=True)

    centred = e.emit("subtract", [flat, mean(flat)], flat.type)
    variance = mean(e.emit("multiply", [centred, centred], flat.type))
    factor = unary(e, "rsqrt", binary(e, "add", variance, attrs["epsilon"]))
    normal = e.emit("multiply", [centred, factor], flat.type)
    result = e.reshape(normal, shape_of(moved))
    lines = [1, shape[channel], *[1] * (len(shape) - 2)]
    for name, vector in zip(("multiply", "add"), vectors, strict=False):
        result = e.emit(name, [result, e.reshape(vector, lines)], result.type)
    return e.permute(result, [order.index(i) for i in range(len(order))])
