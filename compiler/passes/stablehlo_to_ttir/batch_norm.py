"""Batch normalisation, written as the StableHLO specification writes it in simpler ops."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from compiler.ops.shapes import shape_of
from compiler.passes.stablehlo_to_ttir.emit import Emit, lowers


def _normalise(
    e: Emit, value: SSAValue, scale: SSAValue, offset: SSAValue, mean: SSAValue, variance: SSAValue
) -> SSAValue:
    """scale * (value - mean) / sqrt(variance + epsilon) + offset, all but `value` along the feature dim."""
    shape = shape_of(value)
    (feature,) = e.ints("feature_index")
    epsilon: Any = e.attr("epsilon")
    assert isinstance(epsilon, FloatAttr)
    along = [n if i == feature else 1 for i, n in enumerate(shape)]
    kind: Any = value.type
    scale, offset, mean, variance = (e.reshape(v, along) for v in (scale, offset, mean, variance))
    small = e.full(along, kind.element_type, epsilon.value.data)
    deviation = e.emit("sqrt", [e.emit("add", [variance, small], variance.type)], variance.type)
    centred = e.emit("subtract", [value, mean], kind)
    normal = e.emit("div", [centred, deviation], kind)
    return e.emit("add", [e.emit("multiply", [scale, normal], kind), offset], kind)


@lowers("stablehlo.batch_norm_inference")
def batch_norm_inference(e: Emit) -> SSAValue:
    """With the mean and variance given."""
    value, scale, offset, mean, variance = e.operands
    return _normalise(e, value, scale, offset, mean, variance)


@lowers("stablehlo.batch_norm_training")
def batch_norm_training(e: Emit) -> list[SSAValue]:
    """With the batch's own mean and variance, which are results too."""
    value, scale, offset = e.operands
    shape = shape_of(value)
    (feature,) = e.ints("feature_index")
    kind: Any = value.type
    vector = e.op.results[1].type
    others = [i for i in range(len(shape)) if i != feature]
    along = [n if i == feature else 1 for i, n in enumerate(shape)]
    count = e.full((), kind.element_type, prod(shape[i] for i in others))

    def average(tensor: SSAValue) -> SSAValue:
        total = e.emit("sum", [tensor], vector, dim_arg=others, keep_dim=False)
        return e.emit("div", [total, count], vector)

    mean = average(value)
    centred = e.emit("subtract", [value, e.reshape(mean, along)], kind)
    variance = average(e.emit("multiply", [centred, centred], kind))
    return [_normalise(e, value, scale, offset, mean, variance), mean, variance]
