"""Recognises quantisation that an importer wrote as plain arithmetic, and writes it in StableHLO's quantised types.

`(convert(q) - z) * s` and `convert(clamp(round(x / s) + z))` become uniform_dequantize and uniform_quantize; a product,
convolution or elementwise op between them, with a bias and a maximum with zero, becomes an op of quantised tensors.
What does not fit (scales that are no constants, a bias that is no integer of its product's scale) stays as it is.

A quantisation of ONNX rounds before it adds the zero point and StableHLO's after that: where x / s is an exact half and
z is odd, they differ by one step.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.base.quantised.dequantised import ops_of
from opscope.base.quantised.types import QuantisedType, quantised_type

STORED = {"i8": "i8", "ui8": "u8", "i16": "i16", "ui16": "u16"}
"""Element types of stored integers -> how a quantised type names them."""
WHOLE = 0.02
"""How far a bias may be from an integer of its product's scale: half of float32's error of one that ONNX stored."""
_SPENT_NAMES = (
    "constant broadcast_in_dim convert clamp add subtract multiply divide maximum round_nearest_even reshape transpose "
    "uniform_quantize uniform_dequantize convolution dot_general"
)
_SPENT = frozenset(f"stablehlo.{name}" for name in _SPENT_NAMES.split())
"""Ops that go where nothing reads them any more."""


def with_quantised_types(bytecode: bytes) -> bytes:
    """Returns a module of StableHLO with its quantisation in types; the same bytes where there is none."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import chlo, stablehlo

    context = ir.Context()
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    with context, ir.Location.unknown():
        # jaxlib registers the dialect of quantised types nowhere, but its artifact reader loads it.
        empty = stablehlo.serialize_portable_artifact(ir.Module.parse("module {}"), stablehlo.get_minimum_version())
        stablehlo.deserialize_portable_artifact(context, empty)
        module = ir.Module.parse(bytecode)
        rewriter = _Pairs()
        if not rewriter.mark(module):
            return bytecode
        rewriter.join(module)
        module.operation.verify()
        file = io.BytesIO()
        module.operation.write_bytecode(file)
    return file.getvalue()


@dataclass(frozen=True)
class _Numbers:
    """Constant numbers: one of the whole tensor (`axis` None), or one for each index of an axis."""

    values: np.ndarray
    axis: int | None


class _Pairs:
    """The rewriting of one module."""

    def __init__(self) -> None:
        self.stored: dict[Any, tuple[Any, str]] = {}
        """Stored integers -> the quantised tensor, and its element type."""

    def mark(self, module: Any) -> bool:
        """Writes quantisations and dequantisations as such; False if there are none."""
        for op in ops_of(module.operation):
            if op.name == "stablehlo.convert":
                self._quantisation(op)
        if not self.stored:
            return False
        for op in ops_of(module.operation):
            if op.name == "stablehlo.multiply":
                self._dequantisation(op)
        _sweep(module)
        return True

    def join(self, module: Any) -> None:
        """Turns ops between dequantisations and a quantisation into ops of quantised tensors."""
        for op in ops_of(module.operation):
            if op.name in ("stablehlo.reshape", "stablehlo.transpose"):
                _moved(op)
        _sweep(module)
        for op in ops_of(module.operation):
            if op.name in _JOINED and len(op.operands) == 2:
                _joined(op)
        _sweep(module)

    def _quantisation(self, op: Any) -> None:
        storage = str(_tensor(op.results[0]).element_type)
        clamp = _made_by(op.operands[0], "stablehlo.clamp")
        if storage not in STORED or clamp is None:
            return
        low, high = (_along(_known(clamp.operands[i])) for i in (0, 2))
        added = _made_by(clamp.operands[1], "stablehlo.add")
        rounded = _made_by(clamp.operands[1] if added is None else added.operands[0], "stablehlo.round_nearest_even")
        zero = _Numbers(np.zeros(1), None) if added is None else _along(_known(added.operands[1]))
        steps = _made_by(rounded.operands[0], "stablehlo.divide") if rounded is not None else None
        scale = _along(_known(steps.operands[1])) if steps is not None else None
        if steps is None or scale is None or zero is None or low is None or high is None:
            return
        if low.axis is not None or high.axis is not None or str(_tensor(steps.operands[0]).element_type) != "f32":
            return
        limits = int(low.values[0]), int(high.values[0])
        element = _element(STORED[storage], limits, scale, zero)
        if element is not None:
            made = _create("stablehlo.uniform_quantize", op, steps.operands[0], element)
            self.stored[op.results[0]] = made, element

    def _dequantisation(self, op: Any) -> None:
        for value, factor in ((op.operands[0], op.operands[1]), (op.operands[1], op.operands[0])):
            scale = _along(_known(factor))
            if scale is None:
                continue
            shifted = _made_by(value, "stablehlo.subtract")
            zero = _along(_known(shifted.operands[1])) if shifted is not None else _Numbers(np.zeros(1), None)
            widened = _made_by(value if shifted is None else shifted.operands[0], "stablehlo.convert")
            if widened is not None and widened.operands[0] in self.stored and zero is not None:
                source, element = self.stored[widened.operands[0]]
                kind = quantised_type(element)
                if kind is not None and _element_of(kind, scale, zero) == element:
                    return _replace(op, _create("stablehlo.uniform_dequantize", op, source, "f32"))
            if shifted is None and (weights := _weights(op, value, scale)) is not None:
                return _replace(op, _create("stablehlo.uniform_dequantize", op, weights, "f32"))
        return None


def _sweep(module: Any) -> None:
    """Erases what nothing reads any more, so that each reader is one that counts."""
    for op in reversed(ops_of(module.operation)):
        if op.name in _SPENT and not any(list(result.uses) for result in op.results):
            op.erase()


_JOINED = frozenset(f"stablehlo.{name}" for name in ("convolution", "dot_general", "add", "subtract", "multiply"))


def _joined(op: Any) -> None:
    sources = [_made_by(value, "stablehlo.uniform_dequantize") for value in op.operands]
    if any(source is None for source in sources):
        return
    values = [source.operands[0] for source in sources if source is not None]
    end, bias, floor = _reader(op), None, False
    if (
        end is not None
        and end.name == "stablehlo.add"
        and op.name in ("stablehlo.convolution", "stablehlo.dot_general")
    ):
        numbers = [_along(_known(value)) for value in end.operands if value != op.results[0]]
        bias = numbers[0] if numbers else None
        end = _reader(end) if bias is not None else None
    if end is not None and end.name == "stablehlo.maximum":
        others = [_along(_known(value)) for value in end.operands]
        floor = any(other is not None and not other.values.any() for other in others)
        end = _reader(end) if floor else None
    if end is None or end.name != "stablehlo.uniform_quantize":
        return
    result = str(_tensor(end.results[0]).element_type)
    made = _again(op, values, result) if bias is None else _with_bias(op, values, bias, result)
    if made is None:
        return
    if floor:
        made = _floored(end, made, result)
    _replace(end, made)


def _with_bias(op: Any, values: Sequence[Any], bias: _Numbers, result: str) -> Any | None:
    """The op with a result of 32 bits in the scale of its products; the bias is added, then the sum quantised."""
    left, right = (quantised_type(str(_tensor(value).element_type)) for value in values)
    if left is None or right is None or left.axis is not None:
        return None
    axis = None if right.axis is None else _place(op, right.axis)
    if (right.axis is not None and axis is None) or (bias.axis is not None and axis not in (None, bias.axis)):
        return None
    scales = left.scales[0] * np.asarray(right.scales)
    whole = bias.values / scales
    if np.abs(whole - np.rint(whole)).max() > WHOLE or np.abs(whole).max() > 2**30:
        return None
    place = axis if bias.axis is None else bias.axis
    sums = _element("i32", None, _Numbers(scales, axis), _Numbers(np.zeros(1), None))
    alone = _element("i32", None, _Numbers(scales, None if axis is None else 0), _Numbers(np.zeros(1), None))
    total = _again(op, values, sums or "")
    stored = np.ascontiguousarray(np.broadcast_to(np.rint(whole), max(whole.shape, scales.shape)), np.int32)
    if place is None:
        stored = stored.reshape(())
    constant = _constant(op, stored, alone or "")
    spread = _create(
        "stablehlo.broadcast_in_dim",
        op,
        constant,
        sums or "",
        shape=_tensor(total).shape,
        broadcast_dimensions=[] if place is None else [place],
    )
    added = _create("stablehlo.add", op, [total, spread], sums or "")
    return _create("stablehlo.uniform_quantize", op, added, result)


def _place(op: Any, dim: int) -> int | None:
    """The dim of the result in which a dim of an op's right operand ends; None if it is summed over."""
    from jaxlib.mlir.dialects import stablehlo

    if op.name == "stablehlo.convolution":
        numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        return numbers.output_feature_dimension if dim == numbers.kernel_output_feature_dimension else None
    dots = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batches, summed = list(dots.rhs_batching_dimensions), list(dots.rhs_contracting_dimensions)
    if dim in batches:
        return batches.index(dim)
    free = [each for each in range(_tensor(op.operands[1]).rank) if each not in (*batches, *summed)]
    return _tensor(op.results[0]).rank - len(free) + free.index(dim) if dim in free else None


def _floored(end: Any, value: Any, element: str) -> Any:
    """The larger of quantised values and of zero."""
    kind = quantised_type(element)
    assert kind is not None
    tensor = _tensor(value)
    storage = np.dtype({"i": "int", "u": "uint"}[kind.storage[0]] + kind.storage.lstrip("ui"))
    zero = _constant(end, np.full(tensor.shape, kind.zero_points[0], storage), element)
    return _create("stablehlo.maximum", end, [value, zero], element)


def _moved(op: Any) -> None:
    """Has a reshape or a transpose move the stored integers in place of what they stand for."""
    source = _made_by(op.operands[0], "stablehlo.uniform_dequantize")
    if source is None:
        return
    element = str(_tensor(source.operands[0]).element_type)
    kind = quantised_type(element)
    if kind is None:
        return
    if kind.axis is not None:
        if op.name != "stablehlo.transpose":
            return
        axis = list(op.attributes["permutation"]).index(kind.axis)
        moved = _element_of(kind, _Numbers(np.asarray(kind.scales), axis), _Numbers(np.asarray(kind.zero_points), axis))
        element = moved or element
    made = _again(op, [source.operands[0]], element)
    _replace(op, _create("stablehlo.uniform_dequantize", op, made, "f32"))


def _weights(op: Any, value: Any, scale: _Numbers) -> Any | None:
    """A quantised constant for weights that are whole numbers of 8 bits times a scale."""
    owner = _made_by(value, "stablehlo.constant")
    array = _known(value) if owner is not None else None
    if array is None or array.ndim < 2 or np.abs(array).max() > 128 or not np.array_equal(array, np.rint(array)):
        return None
    limits = (-127, 127) if array.min() >= -127 and array.max() <= 127 else (-128, 127)
    if array.max() > 127 or (element := _element("i8", limits, scale, _Numbers(np.zeros(1), None))) is None:
        return None
    return _constant(op, array.astype(np.int8), element)


def _element_of(kind: QuantisedType, scale: _Numbers, zero: _Numbers) -> str | None:
    return _element(kind.storage.replace("ui", "u"), (kind.low, kind.high), scale, zero)


def _element(storage: str, limits: tuple[int, int] | None, scale: _Numbers, zero: _Numbers) -> str | None:
    """The quantised element type with these numbers, as MLIR prints it; None if there is none."""
    from jaxlib.mlir import ir

    axis = scale.axis if zero.axis is None else zero.axis
    if (scale.axis is not None and scale.axis != axis) or not (scale.values > 0).all():
        return None
    if not np.array_equal(zero.values, np.rint(zero.values)):
        return None
    size = max(scale.values.size, zero.values.size)
    pairs = zip(*(np.broadcast_to(part.values, (size,)).tolist() for part in (scale, zero)), strict=True)
    steps = ",".join(f"{s:.17e}:{int(z)}" for s, z in pairs)
    words = f"{storage}{'' if limits is None else '<{}:{}>'.format(*limits)}:f32"
    text = f"!quant.uniform<{words}{'' if axis is None else f':{axis}'}, {steps if axis is None else f'{{{steps}}}'}>"
    return str(ir.Type.parse(text))


def _again(op: Any, operands: Sequence[Any], element: str) -> Any:
    """The same op on other operands, with a result of another element type."""
    from jaxlib.mlir import ir

    attributes = {name: op.attributes[name] for name in op.attributes}
    kind = ir.RankedTensorType.get(_tensor(op.results[0]).shape, ir.Type.parse(element))
    return ir.Operation.create(
        op.name, [kind], list(operands), attributes=attributes, loc=op.location, ip=ir.InsertionPoint(op)
    ).result


def _create(name: str, at: Any, operands: Any, element: str, shape: Any = None, **attributes: list[int]) -> Any:
    """A new op before `at`, with a result of the shape of its first operand or of `shape`."""
    from jaxlib.mlir import ir

    operands = operands if isinstance(operands, list) else [operands]
    shape = _tensor(operands[0]).shape if shape is None else shape
    kind = ir.RankedTensorType.get(shape, ir.Type.parse(element))
    made: dict[str, Any] = {key: ir.DenseI64ArrayAttr.get(numbers) for key, numbers in attributes.items()}
    return ir.Operation.create(
        name, [kind], operands, attributes=made, loc=at.location, ip=ir.InsertionPoint(at)
    ).result


def _constant(at: Any, stored: np.ndarray, element: str) -> Any:
    """A constant of a quantised type."""
    from jaxlib.mlir import ir

    array: Any = np.ascontiguousarray(stored).reshape(stored.shape)
    kind = ir.RankedTensorType.get(array.shape, ir.Type.parse(element))
    signless = ir.IntegerType.get_unsigned(8) if array.dtype == np.uint8 else None
    value = ir.DenseElementsAttr.get(array, type=signless, shape=array.shape)
    return ir.Operation.create(
        "stablehlo.constant", [kind], [], attributes={"value": value}, loc=at.location, ip=ir.InsertionPoint(at)
    ).result


def _replace(op: Any, value: Any) -> None:
    op.results[0].replace_all_uses_with(value)


def _reader(op: Any) -> Any | None:
    """The one op that reads an op's result; None if there are others."""
    readers = [use.owner for use in op.results[0].uses]
    return readers[0].operation if len(readers) == 1 else None


def _tensor(value: Any) -> Any:
    from jaxlib.mlir import ir

    return ir.RankedTensorType(value.type)


def _made_by(value: Any, name: str) -> Any | None:
    """The op that makes a value, if it is of that name."""
    owner = value.owner
    return owner.operation if getattr(owner, "name", "") == name else None


def _known(value: Any) -> np.ndarray | None:
    """The numbers of a value that follows from constants; None if it does not."""
    from jaxlib.mlir import ir

    owner = value.owner
    name = getattr(owner, "name", "")
    if name == "stablehlo.constant":
        attribute = owner.attributes["value"]
        if not isinstance(attribute, ir.DenseFPElementsAttr) or str(_tensor(value).element_type) != "f32":
            return None
        if attribute.is_splat:
            number: Any = attribute.get_splat_value()
            return np.broadcast_to(np.float32(number.value), _tensor(value).shape)
        return np.asarray(attribute)
    if name not in ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.multiply"):
        return None
    operands = [_known(operand) for operand in owner.operands]
    shape = _tensor(value).shape
    first = operands[0]
    if first is None or any(operand is None for operand in operands):
        return None
    if name == "stablehlo.multiply":
        return first * operands[1]
    if name == "stablehlo.reshape":
        return first.reshape(shape)
    dims = list(owner.attributes["broadcast_dimensions"])
    beside = [first.shape[dims.index(dim)] if dim in dims else 1 for dim in range(len(shape))]
    return np.broadcast_to(first.reshape(beside), shape)


def _along(array: np.ndarray | None) -> _Numbers | None:
    """Known numbers as one, or as those of one axis; None if they differ along more."""
    if array is None or array.size == 0:
        return None
    first = array.reshape(-1)[:1] if array.ndim == 0 else array[(0,) * array.ndim].reshape(1)
    if (array == first[0]).all():
        return _Numbers(np.asarray(first, np.float64), None)
    for axis in range(array.ndim):
        line = array[tuple(slice(None) if dim == axis else 0 for dim in range(array.ndim))]
        if (array == line.reshape([-1 if dim == axis else 1 for dim in range(array.ndim)])).all():
            return _Numbers(np.asarray(line, np.float64), axis)
    return None
