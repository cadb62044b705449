"""Ranges of integer values in ttir: the least and greatest value of an element, from constants and types alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Operation, SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.target.formats import INDEX_LIMIT

Range = tuple[int, int] | None
"""Least and greatest value, both included; None if they are not known."""
MOVES = frozenset({"broadcast", "concat", "gather", "permute", "reshape", "reverse", "slice_static", "where"})
"""Ops whose results are elements of their operands; the mask of `where` and the starts of `gather` do not count."""


class Ranges:
    """Ranges of a function's values, each computed once.

    With `saturated`, a 64-bit value from the host has the range that is left after narrowing (`formats.INDEX_LIMIT`);
    without it, its range is not known.
    """

    def __init__(self, saturated: bool = False) -> None:
        self._known: dict[SSAValue, Range] = {}
        self._saturated = saturated

    def within_limit(self, value: SSAValue) -> bool:
        """Whether every element is closer to 0 than the values that saturate."""
        bounds = self.of(value)
        return bounds is not None and bounds[0] > -INDEX_LIMIT and bounds[1] < INDEX_LIMIT

    def fits(self, value: SSAValue) -> bool:
        """Whether every element fits 32 bits of the value's signedness."""
        bounds = self.of(value)
        if bounds is None:
            return False
        element: Any = value.type
        unsigned = element.element_type.signedness.data == Signedness.UNSIGNED
        low, high = (0, 2**32 - 1) if unsigned else (-(2**31), 2**31 - 1)
        return low <= bounds[0] and bounds[1] <= high

    def of(self, value: SSAValue) -> Range:
        """Returns the range of a value."""
        if value not in self._known:
            self._known[value] = None
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: SSAValue) -> Range:
        own = _of_type(value)
        op = value.owner
        if own is not None:
            return own
        kind: Any = value.type
        if not isinstance(kind.element_type, IntegerType):
            return None  # a float that becomes an integer may be anything
        if not isinstance(op, Operation) or op.name == "ttir.host_op":
            return (-INDEX_LIMIT, INDEX_LIMIT) if self._saturated else None
        name = op.name.removeprefix("ttir.")
        if name == "constant":
            return _of_constant(op)
        if name == "arange":
            return 0, max(shape_of(value), default=1)
        if name == "full":
            fill: Any = op.properties["fill_value"]
            return int(fill.value.data), int(fill.value.data)
        operands = list(op.operands)
        if name in MOVES:
            operands = operands[1:] if name == "where" else operands[:1] if name == "gather" else operands
        ranges = [self.of(v) for v in operands]
        if bounded := _bounded(name, operands, ranges):
            return bounded
        known = [r for r in ranges if r is not None]
        if len(known) < len(ranges) or not known:
            return None
        bounds = _computed(name, known)
        if name == "typecast" and self._saturated and bounds is not None and bounds[1] > 2**31 - 1:
            return bounds[0], INDEX_LIMIT  # from 32 bits without a sign
        return bounds


def is_source(value: SSAValue) -> bool:
    """Whether a value comes from arguments, the host or conversions, possibly moved: narrowing saturates it once."""
    op = value.owner
    if not isinstance(op, Operation) or op.name in ("ttir.typecast", "ttir.host_op"):
        return True
    moves = ("ttir.reshape", "ttir.broadcast", "ttir.permute", "ttir.concat", "ttir.slice_static")
    return op.name in moves and all(is_source(v) for v in op.operands)


def _bounded(name: str, operands: list[SSAValue], ranges: list[Range]) -> Range:
    """Returns the range of an unknown value held between known bounds; saturating it first changes nothing."""
    # Beyond the limit a source has saturated: bounds there would hold it back too late.
    near = [r if r is not None and r[0] >= -INDEX_LIMIT and r[1] <= INDEX_LIMIT else None for r in ranges]
    if name == "minimum":
        for value, limit in ((operands[0], near[1]), (operands[1], near[0])):
            kind: Any = value.type
            unsigned = kind.element_type.signedness.data == Signedness.UNSIGNED
            if limit is not None and unsigned and is_source(value):
                return 0, limit[1]
    if name == "clamp_tensor" and near[1] is not None and near[2] is not None and is_source(operands[0]):
        return min(near[1][0], near[2][0]), max(near[1][1], near[2][1])
    return None


def _of_type(value: SSAValue) -> Range:
    """Returns all values that an element of at most 32 bits can have."""
    kind: Any = value.type
    element = kind.element_type
    if not isinstance(element, IntegerType) or element.width.data > 32:
        return None
    width = element.width.data
    if element.signedness.data == Signedness.UNSIGNED or width == 1:
        return 0, 2**width - 1
    return -(2 ** (width - 1)), 2 ** (width - 1) - 1


def _of_constant(op: Operation) -> Range:
    attr: Any = op.properties["value"]
    unsigned = attr.type.element_type.signedness.data == Signedness.UNSIGNED
    data = np.frombuffer(attr.data.data, np.uint64 if unsigned else np.int64)
    return (int(data.min()), int(data.max())) if data.size else None


def _computed(name: str, known: list[tuple[int, int]]) -> Range:
    low, high = min(r[0] for r in known), max(r[1] for r in known)
    if name in MOVES or name == "typecast":
        return low, high
    if len(known) == 2:
        (a, b), (c, d) = known
        if name in ("maximum", "minimum"):
            return low, high
        if name == "add":
            return a + c, b + d
        if name == "subtract":
            return a - d, b - c
        if name == "multiply":
            products = (a * c, a * d, b * c, b * d)
            return min(products), max(products)
        if name == "div":  # division by zero gives all ones
            most = max(abs(a), abs(b), 1)
            return -most, most
        if name == "remainder":  # the remainder by zero is the dividend
            most = max(abs(a), abs(b))
            return (0 if a >= 0 else -most), most
    if name == "neg":
        return -high, -low
    if name == "abs":
        return 0, max(abs(low), abs(high))
    if name == "sign":
        return -1, 1
    return None
