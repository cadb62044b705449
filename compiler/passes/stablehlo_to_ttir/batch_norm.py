"""Batch normalisation, written in simpler ops as in the StableHLO specification."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, lowers


def normalise(
    e: Emit,
    value: SSAValue,
    vectors: tuple[SSAValue, SSAValue, SSAValue, SSAValue],
    feature: int,
    epsilon: float,
) -> SSAValue:
    """Returns scale * (value - mean) / sqrt(variance + epsilon) + offset.

    `vectors` are scale, offset, mean and variance, which lie along dim `feature`.
    """
    shape = shape_of(value)
    along = [n if i == feature else 1 for i, n in enumerate(shape)]
    kind: Any = value.type
    scale, offset, mean, variance = (e.reshape(v, along) for v in vectors)
    small = e.full(along, kind.element_type, epsilon)
    deviation = e.emit("sqrt", [e.emit("add", [variance, small], variance.type)], variance.type)
    centred = e.emit("subtract", [value, mean], kind)
    normal = e.emit("div", [centred, deviation], kind)
    return e.emit("add", [e.emit("multiply", [scale, normal], kind), offset], kind)


def statistics(e: Emit, value: SSAValue, vector: Any, feature: int) -> tuple[SSAValue, SSAValue]:
    """Returns mean and variance of the batch, of type `vector` along dim `feature`."""
    shape = shape_of(value)
    kind: Any = value.type
    others = [i for i in range(len(shape)) if i != feature]
    along = [n if i == feature else 1 for i, n in enumerate(shape)]
    count = e.full((), kind.element_type, prod(shape[i] for i in others))

    def average(tensor: SSAValue) -> SSAValue:
        total = e.emit("sum", [tensor], vector, dim_arg=others, keep_dim=False)
        return e.emit("div", [total, count], vector)

    mean = average(value)
    centred = e.emit("subtract", [value, e.reshape(mean, along)], kind)
    return mean, average(e.emit("multiply", [centred, centred], kind))


def attributes(e: Emit) -> tuple[int, float]:
    """Returns the dim of the features, and epsilon."""
    (feature,) = e.ints("feature_index")
    epsilon: Any = e.attr("epsilon")
    assert isinstance(epsilon, FloatAttr)
    return feature, epsilon.value.data


@lowers("stablehlo.batch_norm_inference")
def batch_norm_inference(e: Emit) -> SSAValue:
    """Normalises with the given mean and variance."""
    value, scale, offset, mean, variance = e.operands
    return normalise(e, value, (scale, offset, mean, variance), *attributes(e))


@lowers("stablehlo.batch_norm_training")
def batch_norm_training(e: Emit) -> list[SSAValue]:
    """Normalises with the batch's own mean and variance, which it also returns."""
    value, scale, offset = e.operands
    feature, epsilon = attributes(e)
    mean, variance = statistics(e, value, scale.type, feature)
    return [normalise(e, value, (scale, offset, mean, variance), feature, epsilon), mean, variance]


@lowers("stablehlo.batch_norm_grad")
def batch_norm_grad(e: Emit) -> list[SSAValue]:
    """Returns the gradients of operand, scale and offset, computed step by step as in the specification."""
    value, scale, mean, variance, gradient = e.operands
    shape = shape_of(value)
    feature, epsilon = attributes(e)
    kind: Any = value.type
    along = [n if i == feature else 1 for i, n in enumerate(shape)]
    others = [i for i in range(len(shape)) if i != feature]

    def binary(name: str, a: SSAValue, b: SSAValue) -> SSAValue:
        wide = shape_of(a) == shape or shape_of(b) == shape
        return e.emit(name, [a, b], kind if wide else a.type)

    def total(tensor: SSAValue) -> SSAValue:
        return e.emit("sum", [tensor], vector, dim_arg=others, keep_dim=False)

    vector = scale.type
    scale, mean, variance = (e.reshape(v, along) for v in (scale, mean, variance))
    spread = binary("add", variance, e.full(along, kind.element_type, epsilon))
    deviation = e.emit("sqrt", [spread], spread.type)
    count = e.full(along, kind.element_type, prod(shape[i] for i in others))
    centred = binary("subtract", value, mean)
    grad_offset = total(gradient)
    grad_scale = total(binary("multiply", gradient, binary("div", centred, deviation)))
    by_centre = e.reshape(total(binary("multiply", gradient, centred)), along)
    drift = binary("div", binary("multiply", centred, by_centre), spread)
    left = binary("subtract", binary("multiply", gradient, count), e.reshape(grad_offset, along))
    factor = binary("div", binary("div", scale, deviation), count)
    grad_operand = binary("multiply", binary("subtract", left, drift), factor)
    return [grad_operand, grad_scale, grad_offset]
