"""Turns products and sums of dequantised tensors into those of their integers, requantised by the specification.

`quantise(dequantise(a) . dequantise(b))` is round(sum((a - za) * (b - zb)) * (sa * sb / s) + z), clamped: products and
sums of integers are exact, and one product of floats brings them to the scale of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jaxlib.mlir.ir as mlir
import numpy as np
from jaxlib.mlir.dialects import stablehlo

from opscope.base.quantised.dequantised import ops_of
from opscope.base.quantised.types import QuantisedType, quantised_type

SAME_SCALE = 1e-6
"""Scales that differ by less than float32 can tell are one: an accumulator's is the product of two others, rounded."""
LARGEST = 2**31 - 1
"""What an accumulator holds."""


@dataclass(frozen=True)
class _Stored:
    """A dequantised operand: the quantised tensor, and its type's numbers."""

    value: Any
    type: QuantisedType

    @property
    def largest(self) -> int:
        """The largest magnitude of (stored - zero point)."""
        zeros = self.type.zero_points
        return max(self.type.high - min(zeros), max(zeros) - self.type.low)


@dataclass(frozen=True)
class _Sum:
    """What integers add up to: `value`, int32, stands for value * `scale`, which may differ along `axis`."""

    value: Any
    scale: np.ndarray
    axis: int | None


def integer_arithmetic(module: mlir.Module) -> None:
    """Rewrites a module whose quantised ops are spelled out (`base/quantised/dequantised.py`), in place.

    What has no form in integers (operands of different scales that are added, functions) stays in floats.
    """
    for op in ops_of(module.operation):
        rule = _RULES.get(op.name)
        operands = [_stored(value) for value in op.operands] if rule else []
        stored = [operand for operand in operands if operand is not None]
        if rule is None or len(stored) != len(operands):
            continue
        with mlir.InsertionPoint(op), op.location:
            total = rule(op, *stored)
            if total is not None:
                _replace(op, total)
    for op in reversed(ops_of(module.operation)):
        if op.name == "stablehlo.uniform_dequantize" and not list(op.results[0].uses):
            op.erase()


def drop_casts(module: mlir.Module) -> None:
    """Drops the casts between a quantised tensor and its integers, once both are the same type."""
    for op in ops_of(module.operation):
        if op.name == "stablehlo.bitcast_convert" and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def _stored(value: Any) -> _Stored | None:
    """The quantised tensor behind a value that is dequantised to float32."""
    owner = value.owner
    if not isinstance(owner, mlir.Operation | mlir.OpView) or owner.name != "stablehlo.uniform_dequantize":
        return None
    source = owner.operands[0]
    kind = quantised_type(str(mlir.RankedTensorType(source.type).element_type))
    return _Stored(source, kind) if kind is not None and kind.expressed == "f32" else None


def _dot(op: Any, left: _Stored, right: _Stored) -> _Sum | None:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    shape = mlir.RankedTensorType(left.value.type).shape
    terms = math.prod(shape[dim] for dim in numbers.lhs_contracting_dimensions)
    free = [
        dim
        for dim in range(mlir.RankedTensorType(right.value.type).rank)
        if dim not in (*numbers.rhs_batching_dimensions, *numbers.rhs_contracting_dimensions)
    ]
    places = {dim: place for place, dim in enumerate(numbers.rhs_batching_dimensions)}
    rank = mlir.RankedTensorType(op.results[0].type).rank
    places |= {dim: rank - len(free) + place for place, dim in enumerate(free)}
    return _product(op, left, right, terms, places)


def _convolution(op: Any, left: _Stored, right: _Stored) -> _Sum | None:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    shape = mlir.RankedTensorType(right.value.type).shape
    outputs = numbers.kernel_output_feature_dimension
    return _product(
        op, left, right, math.prod(shape) // max(shape[outputs], 1), {outputs: numbers.output_feature_dimension}
    )


def _product(op: Any, left: _Stored, right: _Stored, terms: int, places: dict[int, int]) -> _Sum | None:
    """A sum of products; `places`: the dim of the result in which a dim of the right operand ends."""
    if left.type.axis is not None or left.largest * right.largest * terms > LARGEST:
        return None
    if right.type.axis is not None and right.type.axis not in places:
        return None
    operands = [_centred(left), _centred(right)]
    kinds = {str(mlir.RankedTensorType(operand.type).element_type) for operand in operands}
    if kinds != {"i8"}:
        operands = [_converted(operand, _I32()) for operand in operands]
    kind = mlir.RankedTensorType.get(mlir.RankedTensorType(op.results[0].type).shape, _I32())
    attributes = {name: op.attributes[name] for name in op.attributes if name not in ("algorithm", "precision_config")}
    made = mlir.Operation.create(op.name, [kind], operands, attributes=attributes)
    scale = left.type.scales[0] * np.asarray(right.type.scales)
    return _Sum(made.result, scale, None if right.type.axis is None else places[right.type.axis])


def _add(op: Any, left: _Stored, right: _Stored) -> _Sum | None:
    """A sum or a difference of tensors of one scale. Sums of accumulators wrap at 32 bits, as those of products do."""
    if left.type.axis != right.type.axis or not _same(left.type.scales, right.type.scales):
        return None
    return _Sum(_elementwise(op, left, right), np.asarray(left.type.scales), left.type.axis)


def _multiply(op: Any, left: _Stored, right: _Stored) -> _Sum | None:
    if not _per_tensor(left, right) or left.largest * right.largest > LARGEST:
        return None
    return _Sum(_elementwise(op, left, right), np.asarray([left.type.scales[0] * right.type.scales[0]]), None)


_RULES: dict[str, Callable[[Any, _Stored, _Stored], _Sum | None]] = {
    "stablehlo.dot_general": _dot,
    "stablehlo.convolution": _convolution,
    "stablehlo.add": _add,
    "stablehlo.subtract": _add,
    "stablehlo.multiply": _multiply,
}


def _per_tensor(*operands: _Stored) -> bool:
    return all(operand.type.axis is None for operand in operands)


def _same(a: Any, b: Any) -> bool:
    return bool(np.all(np.abs(np.asarray(a) / np.asarray(b) - 1) <= SAME_SCALE))


def _elementwise(op: Any, left: _Stored, right: _Stored) -> Any:
    operands = [_converted(_centred(operand), _I32()) for operand in (left, right)]
    return mlir.Operation.create(op.name, [operands[0].type], operands).result


def _replace(op: Any, total: _Sum) -> None:
    """Puts the sum in the place of an op: quantised where the op's result is only quantised, else as floats."""
    uses = list(op.results[0].uses)
    reader = uses[0].owner if len(uses) == 1 else None
    if reader is not None and reader.name == "stablehlo.uniform_quantize":
        result = reader.results[0]
        kind = quantised_type(str(mlir.RankedTensorType(result.type).element_type))
        if kind is not None and (kind.axis is None or total.axis is None or kind.axis == total.axis):
            result.replace_all_uses_with(_cast(_requantised(total, kind), result.type))
            reader.operation.erase()
            op.erase()
            return
    floats = _converted(total.value, mlir.F32Type.get())
    scale = _spread(total.scale, total.axis, floats.type)
    op.results[0].replace_all_uses_with(stablehlo.multiply(floats, scale))
    op.erase()


def _requantised(total: _Sum, kind: QuantisedType) -> Any:
    """The stored integers of a result of `kind`."""
    factor = total.scale / np.asarray(kind.scales)
    axis = total.axis if kind.axis is None else kind.axis
    zeros, low, high = np.asarray(kind.zero_points), kind.low, kind.high
    storage = mlir.Type.parse(kind.storage)
    value = total.value
    if not _same(factor, 1.0):
        floats = _converted(value, mlir.F32Type.get())
        floats = stablehlo.multiply(floats, _spread(factor, axis, floats.type))
        if zeros.any():
            floats = stablehlo.add(floats, _spread(zeros, axis, floats.type))
        floats = stablehlo.clamp(_scalar(low, floats.type), floats, _scalar(high, floats.type))
        return _converted(stablehlo.round_nearest_even(floats), storage)
    if zeros.any():
        value = stablehlo.add(value, _spread(zeros, axis, value.type))
    if (low, high) != (-LARGEST - 1, LARGEST):
        value = stablehlo.clamp(_scalar(low, value.type), value, _scalar(high, value.type))
    return _converted(value, storage)


def _centred(operand: _Stored) -> Any:
    """(stored - zero point): the stored integers themselves where that is 0, else as int32."""
    tensor = mlir.RankedTensorType(operand.value.type)
    stored = _cast(operand.value, mlir.RankedTensorType.get(tensor.shape, mlir.Type.parse(operand.type.storage)))
    zeros = np.asarray(operand.type.zero_points)
    if not zeros.any():
        return stored
    wide = _converted(stored, _I32())
    return stablehlo.subtract(wide, _spread(zeros, operand.type.axis, wide.type))


def _cast(value: Any, kind: Any) -> Any:
    """A value as a quantised tensor or as its integers: the same bits."""
    return stablehlo.bitcast_convert(kind, value)


def _converted(value: Any, element: Any) -> Any:
    tensor = mlir.RankedTensorType(value.type)
    if tensor.element_type == element:
        return value
    return stablehlo.convert(mlir.RankedTensorType.get(tensor.shape, element), value)


def _I32() -> Any:  # noqa: N802 - named as MLIR names it
    return mlir.IntegerType.get_signless(32)


def _number(number: Any, element: Any) -> Any:
    if str(element) == "f32":
        return mlir.FloatAttr.get(element, float(np.float32(number)))
    return mlir.IntegerAttr.get(element, int(number))


def _scalar(number: Any, like: Any) -> Any:
    """A number of a tensor's element type, without dims."""
    element = mlir.RankedTensorType(like).element_type
    kind = mlir.RankedTensorType.get([], element)
    return stablehlo.constant(mlir.DenseElementsAttr.get_splat(kind, _number(number, element)))


def _spread(numbers: np.ndarray, axis: int | None, like: Any) -> Any:
    """Numbers of the whole tensor, or along `axis`, in the shape and type of a tensor."""
    numbers, tensor = np.atleast_1d(numbers), mlir.RankedTensorType(like)
    element = tensor.element_type
    if numbers.size == 1 or axis is None:
        return stablehlo.constant(mlir.DenseElementsAttr.get_splat(tensor, _number(numbers[0], element)))
    array: Any = np.ascontiguousarray(numbers, np.float32 if str(element) == "f32" else np.int32)
    return stablehlo.broadcast_in_dim(tensor, stablehlo.constant(mlir.DenseElementsAttr.get(array)), [axis])
