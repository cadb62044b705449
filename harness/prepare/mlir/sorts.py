"""A sort by NumPy: its comparator on every pair of a line says where each element goes, by the specification alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from opscope.harness.formulas.elementwise import COMPARED
from opscope.harness.prepare.mlir.door import load
from opscope.harness.prepare.mlir.traversal import main_of
from opscope.harness.prepare.mlir.values import DTYPES, constant_array

MOST_PAIRS = 1 << 24
"""Pairs above which comparing them takes seconds."""
_STEPS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "select": np.where,
    "subtract": np.subtract,
    "xor": np.bitwise_xor,
}


class UnknownOrderError(Exception):
    """Why the order of a sort is not known here."""


def in_right_order(module: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a sort. Raises UnknownOrderError for more than MOST_PAIRS pairs, and for a comparator that is no
    order or has ops that are not known here."""
    sort = _Sort(module, inputs)
    lines = [np.moveaxis(array, sort.axis, -1) for array in sort.operands]
    length = lines[0].shape[-1]
    if lines[0].size * length > MOST_PAIRS:
        raise UnknownOrderError(f"too large ({lines[0].size * length:,} pairs, at most {MOST_PAIRS:,} are compared)")
    pairs = [part for array in lines for part in (array[..., :, None], array[..., None, :])]
    first = np.broadcast_to(sort.comes_first(pairs), (*lines[0].shape, length))
    later = np.tri(length, k=-1, dtype=np.bool_)
    neither = ~first & ~np.swapaxes(first, -1, -2)
    # Where an element goes: behind all that come first, and behind those before it that are equal to it.
    places = np.count_nonzero(first, axis=-2) + np.count_nonzero(neither & later, axis=-1)
    order = np.argsort(places, axis=-1, kind="stable")
    ranked = np.take_along_axis(np.take_along_axis(first, order[..., :, None], -2), order[..., None, :], -1)
    if (ranked & later).any() or (np.sort(places, axis=-1) != np.arange(length)).any():
        raise UnknownOrderError("its comparator is no order of these values")
    return [np.ascontiguousarray(np.moveaxis(np.take_along_axis(array, order, -1), -1, sort.axis)) for array in lines]


def in_order(module: bytes, inputs: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> bool:
    """Whether the comparator of a sort takes its results as they stand: none comes before the one that it follows.
    Raises UnknownOrderError for a comparator with ops that are not known here."""
    sort = _Sort(module, inputs)
    lines = [np.moveaxis(array, sort.axis, -1) for array in results]
    return not sort.comes_first([part for array in lines for part in (array[..., 1:], array[..., :-1])]).any()


class _Sort:
    """The sort of a single-op module: its operands on these inputs, its dimension and its comparator."""

    def __init__(self, module: bytes, inputs: Sequence[np.ndarray]) -> None:
        self._module = load(module)  # its ops live no longer
        [block] = main_of(self._module).regions[0].blocks
        self._values: dict[Any, np.ndarray] = dict(zip(block.arguments, inputs, strict=True))
        ops = [view.operation for view in block.operations]
        for op in ops:
            self._values |= _constant(op)
        self._op = next(op for op in ops if op.name == "stablehlo.sort")
        self.operands = [self._values[operand] for operand in self._op.operands]
        self.axis = int(ir.IntegerAttr(self._op.attributes["dimension"]).value)

    def comes_first(self, arguments: Sequence[np.ndarray]) -> np.ndarray:
        """What the comparator returns of arrays of its arguments. Raises UnknownOrderError."""
        block = self._op.regions[0].blocks[0]
        values = self._values | dict(zip(block.arguments, arguments, strict=True))
        *ops, end = [view.operation for view in block.operations]
        for op in ops:
            if constant := _constant(op):
                values |= constant
                continue
            try:
                values[op.results[0]] = _step(op, [values[operand] for operand in op.operands])
            except KeyError:
                raise UnknownOrderError(f"its comparator has {op.name}") from None
        return values[end.operands[0]]


def _constant(op: Any) -> dict[Any, np.ndarray]:
    """The value of a constant; nothing for another op."""
    array = constant_array(op) if op.name == "stablehlo.constant" else None
    return {} if array is None else {op.results[0]: array}


def _step(op: Any, operands: list[np.ndarray]) -> np.ndarray:
    name, result = op.name.removeprefix("stablehlo."), DTYPES[str(op.results[0].type.element_type)]
    with np.errstate(all="ignore"):
        if name == "compare":
            if "TOTALORDER" in str(op.attributes.get("compare_type", "")):
                operands = [_total(array) for array in operands]
            return COMPARED[str(op.attributes["comparison_direction"]).split()[-1].rstrip(">")](*operands)
        if name == "bitcast_convert":
            return np.ascontiguousarray(operands[0]).view(result)
        if name == "convert":
            return operands[0].astype(result)
        return _STEPS[name](*operands)


def _total(array: np.ndarray) -> np.ndarray:
    """Integers in the total order of IEEE 754's floats: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
