"""Pass `ttnn-workaround`: rewrites ops whose kernels cannot do what the op asks for.

- A move that separates neighbours in a row, on block floats: 16 neighbours in a row share an exponent, so none can
  move alone. The move writes Float16 or Float16_b instead, which hold every bit of a block float.
- A `concat` of more tensors than L1 has room for in circular buffers: groups are joined first, then their results.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from opscope.compiler.dialects import ttnn
from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.ir.functions import functions, kind_of
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.target.formats import number_format

MOST_OPERANDS = 64
"""Most operands of one `concat`."""
WIDENED = {8: "Float16_b", 5: "Float16"}
"""Bits of exponent -> the 16-bit format with that many."""


@dataclass(frozen=True)
class TtnnWorkaround(ModulePass):
    """Works around limits of kernels: moves of block floats write 16 bits, a `concat` of many tensors is split.

    Of the entry alone: functions called by control flow share the formats of their callers.
    """

    name = "ttnn-workaround"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place."""
        for func in functions(op):
            if kind_of(func):
                continue
            for inner in list(func.body.blocks[0].ops):
                if isinstance(inner, RowOp) and inner.ROW.ttir == "concat" and len(inner.operands) > MOST_OPERANDS:
                    _in_parts(inner)
            for inner in list(func.body.blocks[0].ops):
                if isinstance(inner, RowOp) and inner.ROW.group == "data_movement" and not _keeps_rows(inner):
                    for value in inner.results:
                        _widen(value)


def _keeps_rows(op: RowOp) -> bool:
    """Whether neighbours in a row stay neighbours and keep their places in the row."""
    attrs, last = op.read(), len(shape_of(op.results[0])) - 1
    match op.ROW.ttir:
        case "reshape":
            return shape_of(op.operands[0])[-1:] == shape_of(op.results[0])[-1:]
        case "permute":
            return attrs["permutation"][-1:] == (last,)
        case "concat":
            return attrs["dim"] % (last + 1) != last
        case "slice_static":
            return shape_of(op.operands[0])[-1:] == shape_of(op.results[0])[-1:]
        case "broadcast":
            return attrs["broadcast_dimensions"][-1:] == (1,)
    return False


def _widen(value: SSAValue) -> None:
    """Gives a moved tensor of a block format 16 bits per element; its readers unpack either format."""
    encoding, kind = layout.layout_of(value), value.type
    if encoding is None or encoding.layout != "tile" or not isinstance(kind, TensorType):
        return
    own_format = number_format(encoding.data_type)
    shared = any(isinstance(use.operation, ReturnOp) or _passes_through(use.operation) for use in value.uses)
    if own_format.kind != "block" or shared:
        return
    wide = number_format(WIDENED[own_format.exponent_bits]).ttcore
    new = layout.tile_layout(shape_of(value), wide, encoding.buffer_type)
    Rewriter.replace_value_with_new_type(value, TensorType(kind.element_type, shape_of(value), new))


def _passes_through(op: object) -> bool:
    """Whether an op's result has the same format as its operand."""
    return isinstance(op, RowOp) and op.ROW.group in ("layout", "control") and op.ROW.ttir != "deallocate"


def _in_parts(op: RowOp) -> None:
    """Splits a concatenation into parts of at most `MOST_OPERANDS` tensors and joins the results."""
    dim = op.read()["dim"]
    values = list(op.operands)
    kind = op.results[0].type
    assert isinstance(kind, TensorType)
    parts: list[SSAValue] = []
    for start in range(0, len(values), MOST_OPERANDS):
        group = values[start : start + MOST_OPERANDS]
        shape = list(shape_of(group[0]))
        shape[dim] = sum(shape_of(v)[dim] for v in group)
        old = layout.layout_of(op.results[0])
        assert old is not None
        encoding = layout.tile_layout(tuple(shape), old.data_type, old.buffer_type)
        concat = ttnn.CLASSES["concat"].create(
            operands=group,
            result_types=[TensorType(kind.element_type, shape, encoding)],
            properties=dict(op.properties),
            location=op.location,
        )
        Rewriter.insert_op(concat, InsertPoint.before(op))
        parts.append(concat.results[0])
    op.operands = parts
