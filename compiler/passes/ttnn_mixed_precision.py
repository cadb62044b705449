"""Pass `ttnn-mixed-precision`: automatic mixed precision, with the levels of the Buda route (`mixed_precision.py`).

At level 1 operands and results of products are block floats and everything else keeps its format. At level 2 all other
floats have 16 bits, 5 of them exponent. Biases are added in Dst and keep their format.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from opscope.compiler.buda.mixed_precision import FORMATS, LEVELS
from opscope.compiler.dialects import ttnn_layout as layout
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.load_cached import LoadCachedOp
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.ir.functions import CONST_EVAL, PROGRAM, functions, kind_of
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.target.formats import number_format

ATTENTION = (
    "scaled_dot_product_attention",
    "scaled_dot_product_attention_decode",
    "paged_scaled_dot_product_attention_decode",
)
PRODUCTS = frozenset({"matmul", "linear", "conv2d", "conv3d", *ATTENTION})
OPERANDS: dict[str, int] = dict.fromkeys(ATTENTION, 3)
"""Op -> number of operands that a product multiplies, if it is not two."""


@dataclass(frozen=True)
class TtnnMixedPrecision(ModulePass):
    """With `--amp-level`, as on the Buda route. 1: products in `Bfp8_b`; 2: products in `Bfp8`, all other floats in
    `Float16`. Results of the program are converted back to their declared types."""

    name = "ttnn-mixed-precision"
    level: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place, unless control flow shares tensors between functions, whose formats must stay.

        Raises CompilerInputError for an unknown level.
        """
        if self.level not in LEVELS:
            raise CompilerInputError(f"mixed precision: expected level {', '.join(map(str, LEVELS))}, got {self.level}")
        funcs = functions(op)
        if self.level and not any(kind_of(func) == PROGRAM for func in funcs):
            once = {func.sym_name.data: func for func in funcs if kind_of(func) == CONST_EVAL}
            for func in funcs:
                if not kind_of(func):
                    _convert(func, once, *FORMATS[self.level], everything=self.level == 2)


def _convert(func: FuncOp, once: dict[str, FuncOp], narrow: str, wide: str, everything: bool) -> None:
    """Changes the formats of one function.

    Functions in `once`, which are computed once, keep the formats that they read and pack their results as wanted.
    """
    ops = [op for op in func.body.blocks[0].ops if isinstance(op, RowOp)]
    chosen: dict[SSAValue, str] = {}
    for op in ops:
        for value in (*op.operands, *op.results) if everything else ():
            chosen.setdefault(value, wide)
    for op in ops:
        if op.ROW.ttir in PRODUCTS:
            for value in (*op.operands[: OPERANDS.get(op.ROW.ttir, 2)], *op.results):
                chosen[value] = narrow
    for op in [*reversed(ops), *ops]:  # a move between host and device keeps the format
        if op.ROW.group == "layout" and op.results and op.name != "ttnn.to_layout":
            format_ = chosen.get(op.results[0], chosen.get(op.operands[0]))
            if format_ is not None:
                chosen[op.results[0]] = chosen[op.operands[0]] = format_
    for op in ops:
        for value in op.operands if isinstance(op, LoadCachedOp) else ():
            chosen.pop(value, None)
            if isinstance(move := value.owner, RowOp) and move.ROW.group == "layout":
                chosen.pop(move.operands[0], None)
    for value, format_ in chosen.items():
        load = value.owner
        if isinstance(load, LoadCachedOp):
            end = once[load.read()["callee"]].body.blocks[0].last_op
            assert end is not None
            _retype(end.operands[load.results.index(value)], number_format(format_).ttcore)
        _retype(value, number_format(format_).ttcore)
    for callee in once.values():
        block = callee.body.blocks[0]
        assert block.last_op is not None
        types = ([a.type for a in block.args], [v.type for v in block.last_op.operands])
        callee.function_type = FunctionType.from_lists(*types)


def _retype(value: SSAValue, data_type: str) -> None:
    old, kind = layout.layout_of(value), value.type
    if (
        old is None
        or old.layout != "tile"
        or not isinstance(kind, TensorType)
        or not isinstance(value.owner, Operation)
    ):
        return
    if not number_format(old.data_type).is_float or number_format(old.data_type).bits < number_format(data_type).bits:
        return
    new = layout.tile_layout(shape_of(value), data_type, old.buffer_type)
    Rewriter.replace_value_with_new_type(value, TensorType(kind.element_type, shape_of(value), new))
