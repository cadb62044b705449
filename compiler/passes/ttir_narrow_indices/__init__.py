"""Pass `ttir-narrow-indices`: 64-bit integers that need no 64 bits are held in 32.

The device has no 64-bit datum. Two kinds of values do not need one. Values whose range, as `ranges.py` computes it,
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
from opscope.compiler.passes.ttir_narrow_indices.ranges import Ranges, is_source
from opscope.compiler.target.formats import INDEX_LIMIT

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
    """Narrows index computations of every entry function."""

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
