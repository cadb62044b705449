"""Pass `ttir-narrow-indices`: 64-bit integers that need no 64 bits are held in 32.

The device has no 64-bit datum. Two kinds of values do not need one. Values whose range, as `Ranges` computes it,
fits 32 bits lose nothing. Indices, which only choose where to read or write, saturate (`formats.INDEX_LIMIT`): no dim
of a tensor on the device is so long that a start beyond the limit would not be clamped or dropped all the same. On the
way to their use, indices may be compared, selected, and shifted by a known number, as far as 32 bits go; a product or
a remainder of a saturated value would be another. Values with any other use keep 64 bits and are refused later. The
function notes what was narrowed (`ttcore.narrowed_indices`), and the binary does by the types of the tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from opscope.compiler.dialects import ttir
from opscope.compiler.dialects.from_row import write_attrs
from opscope.compiler.ir.functions import functions, kind_of
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


NOTE = "ttcore.narrowed_indices"
COMPARE = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
CHAIN = COMPARE | frozenset(
    {
        "abs",
        "add",
        "clamp_tensor",
        "div",
        "maximum",
        "minimum",
        "multiply",
        "neg",
        "remainder",
        "sign",
        "subtract",
        "logical_and",
        "logical_or",
        "logical_not",
        "where",
        "typecast",
        "arange",
        "constant",
        "full",
        "broadcast",
        "concat",
        "pad",
        "permute",
        "reshape",
        "reverse",
        "slice_static",
    }
)
"""Ops that compute an index from indices, or move one."""
ARITHMETIC = frozenset({"add", "subtract", "neg", "abs", "multiply", "div", "remainder"})
"""Ops whose result may need more bits than its operands, or depend on bits that saturation removes."""
FOLDING = frozenset({"multiply", "div", "remainder"})
"""Ops that can turn a saturated operand into a result within a tensor's bounds."""


@dataclass(frozen=True)
class TtirNarrowIndices(ModulePass):
    """Holds integers of 64 bits in 32 where they fit, or are only indices."""

    name = "ttir-narrow-indices"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes types in place."""
        for func in functions(op):
            if not kind_of(func):
                _narrow(func)


def _width(value: SSAValue) -> int:
    """Returns the bits of an integer tensor's elements; 0 for any other value."""
    if not isinstance(value.type, TensorType):
        return 0
    element: Any = value.type.element_type
    return element.width.data if isinstance(element, IntegerType) else 0


def _is_index(use: Use) -> bool:
    """Whether this operand determines where its op reads or writes."""
    op = use.operation
    if op.name == "ttir.gather":
        return use.index == 1
    return op.name == "ttir.scatter" and use.index == len(op.results)


def _on_host(value: SSAValue) -> bool:
    """Whether the host holds a value of the entry function: an argument, or a result that the host computed."""
    return not isinstance(value.owner, Operation) or value.owner.name == "ttir.host_op"


def _reads_host(use: Use) -> bool:
    """Whether the user takes the host's own 64 bits."""
    return use.operation.name in ("ttir.host_op", "ttir.split_words") or isinstance(use.operation, ReturnOp)


def _narrow(func: FuncOp) -> None:
    block = func.body.blocks[0]
    wide = [v for v in _values(block) if _width(v) == 64]
    if not wide:
        return
    indices = _indices(block)
    narrowed = [v for v in wide if v in indices]
    for value in narrowed:
        if _on_host(value):
            kind = TensorType(_half(value), shape_of(value))
            narrowing = ttir.CLASSES["narrow_index"].create(operands=[value], result_types=[kind])
            value.replace_uses_with_if(
                narrowing.results[0],
                lambda use, narrowing=narrowing: use.operation is not narrowing and not _reads_host(use),
            )
            if isinstance(value.owner, Operation):
                block.insert_op_after(narrowing, value.owner)
                continue
            first = block.first_op
            assert first is not None
            block.insert_op_before(narrowing, first)
        else:
            _retype(value)
    if narrowed:
        func.attributes[NOTE] = IntegerAttr(len(narrowed), i64)


def _values(block: Block) -> list[SSAValue]:
    return [*block.args, *(result for op in block.ops for result in op.results)]


def _indices(block: Block) -> set[SSAValue]:
    """Returns the integers and booleans that can be narrowed or only lead to an index, by ruling out all others."""
    indices = {v for v in _values(block) if _width(v) and not all(_reads_host(u) for u in v.uses)}
    ranges, saturated = Ranges(), Ranges(saturated=True)
    struck = True
    while struck:
        bad = {
            v
            for v in indices
            if not all(
                _is_index(u) or (_on_host(v) and _reads_host(u)) or _carries(u.operation, indices, ranges, saturated)
                for u in v.uses
            )
        }
        bad |= {v for v in indices if _width(v) == 64 and not _makes(v, indices, ranges, saturated)}
        struck = bool(bad)
        indices -= bad
    return indices


def _keeps(op: Operation, ranges: Ranges, saturated: Ranges) -> bool:
    """Whether arithmetic on narrowed operands gives the narrowed result, without overflow or folded saturation."""
    name = op.name.removeprefix("ttir.")
    if name not in ARITHMETIC or _width(op.results[0]) != 64:
        return True
    exact = all(ranges.fits(v) for v in op.operands)
    return saturated.fits(op.results[0]) and (exact or name not in FOLDING)


def _carries(op: Operation, indices: set[SSAValue], ranges: Ranges, saturated: Ranges) -> bool:
    """Whether an op only passes indices on, or loses nothing.

    That is so if all its 64-bit operands and results can be narrowed, and its other results are indices or unchanged.
    """
    if op.name.removeprefix("ttir.") not in CHAIN and op.name != "ttir.gather":
        return False
    if not all(v in indices for v in op.operands if _width(v) == 64) or not _keeps(op, ranges, saturated):
        return False
    return all(r in indices or (_width(r) != 64 and _exact(op, ranges)) for r in op.results)


def _exact(op: Operation, ranges: Ranges) -> bool:
    """Whether a comparison or conversion gives the same result for narrowed operands as for wide ones."""
    wide = [v for v in op.operands if _width(v) == 64]
    known = [ranges.fits(v) for v in wide]
    if not wide:
        return False
    if op.name == "ttir.typecast":
        return all(known)
    if op.name.removeprefix("ttir.") not in COMPARE:
        return False
    # Saturation keeps the order against any value within the limit.
    return all(known) or (any(known) and all(ranges.within_limit(v) or is_source(v) for v in wide))


def _makes(value: SSAValue, indices: set[SSAValue], ranges: Ranges, saturated: Ranges) -> bool:
    """Whether a 64-bit value can be made narrow by the op that produces it."""
    owner = value.owner
    return not isinstance(owner, Operation) or _on_host(value) or _carries(owner, indices, ranges, saturated)


def _half(value: SSAValue) -> IntegerType:
    element: Any = value.type
    return IntegerType(32, element.element_type.signedness)


def _retype(value: SSAValue) -> None:
    op = value.owner
    assert isinstance(op, Operation)
    kind = TensorType(_half(value), shape_of(value))
    if op.name == "ttir.typecast" and str(element_type(op.operands[0])) == "ui32" and str(_half(value)) == "i32":
        _limit(op)
    if op.name == "ttir.constant":
        old: Any = op.properties["value"]
        unsigned = str(_half(value)).startswith("ui")
        data = np.frombuffer(old.data.data, np.uint64 if unsigned else np.int64)
        limits = np.iinfo(np.uint32 if unsigned else np.int32)
        narrow = np.clip(data, limits.min, limits.max).astype(limits.dtype)
        op.properties["value"] = DenseIntOrFPElementsAttr(kind, BytesAttr(narrow.tobytes()))
    Rewriter.replace_value_with_new_type(value, kind)


def _limit(op: Operation) -> None:
    """Inserts a minimum before a conversion of ui32 to i32, so that no element turns negative or exceeds the limit."""
    (value,) = op.operands
    block = op.parent
    assert block is not None
    scalar = TensorType(element_type(value), [])
    cls = ttir.CLASSES["full"]
    limit = cls.create(
        result_types=[scalar],
        properties=write_attrs(cls.ROW, {"shape": [], "fill_value": IntegerAttr(INDEX_LIMIT, i32)}),
    )
    least = ttir.CLASSES["minimum"].create(operands=[value, limit.results[0]], result_types=[value.type])
    block.insert_ops_before([limit, least], op)
    op.operands[0] = least.results[0]


def element_type(value: SSAValue) -> Any:
    """Returns the element type of a tensor value."""
    kind: Any = value.type
    return kind.element_type
