"""Numbers that a run cannot change: constants of ttir, and arithmetic and movements of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, SSAValue

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import element, maker, shape_of, splat

MOST_STEPS = 200
"""Ops that are looked through, one after another."""
MOST_ELEMENTS = 1 << 22
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "where": np.where,
    "abs": np.abs,
    "neg": np.negative,
}
TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
}
"""Element type -> NumPy's of the same width, in which arithmetic rounds and wraps alike."""


def known_number(value: SSAValue) -> float | None:
    """Returns the number that every element of `value` is, as far as is known; else None."""
    if (number := splat(value)) is not None:
        return number
    array = known_array(value)
    if array is None or not array.size or not np.all(array == array.flat[0]):
        return None
    return float(array.flat[0])


def known_array(value: SSAValue, steps: int = MOST_STEPS) -> np.ndarray | None:
    """Returns the elements of `value`, if constants, and arithmetic and movements of them, make it; else None."""
    shape, op = shape_of(value), maker(value)
    kind = TYPES.get(str(element(value)))
    if op is None or kind is None or steps <= 0 or np.prod(shape, dtype=float) > MOST_ELEMENTS:
        return None
    if op.ROW.ttir == "full":
        number = splat(value)
        return None if number is None else np.full(shape, number, kind)
    if op.ROW.ttir == "constant":
        return _constant(op.properties["value"], shape, kind)
    if op.ROW.ttir not in ARITHMETIC and op.ROW.ttir not in MOVEMENTS:
        return None
    operands = [known_array(operand, steps - 1) for operand in op.operands]
    if any(operand is None for operand in operands):
        return None
    with np.errstate(all="ignore"):
        if op.ROW.ttir in ARITHMETIC:
            return np.broadcast_to(ARITHMETIC[op.ROW.ttir](*operands), shape).astype(kind)
        return np.asarray(MOVEMENTS[op.ROW.ttir](op, *operands)).astype(kind)


def _constant(attribute: Attribute, shape: Sequence[int], kind: Any) -> np.ndarray | None:
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        return None
    numbers = np.asarray(attribute.get_values(), kind)
    if numbers.size == 1:
        return np.full(shape, numbers.ravel()[0], kind)
    return numbers.reshape(shape) if numbers.size == np.prod(shape, dtype=int) else None


def _arange(op: RowOp) -> np.ndarray:
    attrs, shape = op.read(), shape_of(op.results[0])
    line = [1] * len(shape)
    line[attrs["arange_dimension"]] = -1
    numbers = np.arange(attrs["start"], attrs["end"], attrs["step"]).reshape(line)
    return np.broadcast_to(numbers, shape)


def _slice(op: RowOp, x: np.ndarray) -> np.ndarray:
    attrs = op.read()
    return x[tuple(slice(*cut) for cut in zip(attrs["begins"], attrs["ends"], attrs["step"], strict=True))]


MOVEMENTS: dict[str, Callable[..., Any]] = {
    "arange": _arange,
    "broadcast": lambda op, x: np.broadcast_to(x, shape_of(op.results[0])),
    "concat": lambda op, *parts: np.concatenate(parts, op.read()["dim"]),
    "permute": lambda op, x: np.transpose(x, op.read()["permutation"]),
    "reshape": lambda op, x: x.reshape(shape_of(op.results[0])),
    "reverse": lambda op, x: np.flip(x, op.read()["dimensions"]),
    "slice_static": _slice,
    "typecast": lambda op, x: x,
}
"""ttir op that moves or converts -> the same on arrays."""

__all__ = ["known_array", "known_number"]
