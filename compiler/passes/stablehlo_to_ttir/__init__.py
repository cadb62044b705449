"""Pass `stablehlo-to-ttir`: lowers ops 1:1 by their rows, others by patterns, and refuses the rest with a reason.

It sweeps each block once in program order. New ops go before the op that they replace, so none is visited twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, ComplexType, IntAttr, IntegerType, ModuleOp, TensorType
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.dialects import ttir
from opscope.compiler.dialects.locations import mark_parts
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir.functions import SOURCE, function_type, functions
from opscope.compiler.ops.element_text import element_text
from opscope.compiler.ops.row import TABLE, OpRow
from opscope.compiler.options import WAY_OUT
from opscope.compiler.passes.stablehlo_to_ttir import (  # noqa: F401  (each fills PATTERNS or NAMED)
    batch_norm,
    collective,
    control,
    conv,
    creation,
    custom_call,
    data_movement,
    dynamic,
    dynamic_slice,
    eltwise,
    linalg,
    named,
    random,
    reduce,
    reduce_window,
    rng,
    sort,
)
from opscope.compiler.passes.stablehlo_to_ttir.emit import NAMED, PATTERNS, STAGE, Emit
from opscope.compiler.passes.stablehlo_to_ttir.named.complex_numbers import as_real
from opscope.compiler.passes.stablehlo_to_ttir.regions import Functions


def type_class(value: SSAValue) -> str:
    """Returns float, int, bool, complex, quant, or `other` (tokens, tuples, dynamic shapes)."""
    if not isinstance(value.type, TensorType):
        return "other"
    element: Any = value.type.element_type
    if isinstance(element, IntegerType):
        return "bool" if element.width.data == 1 else "int"
    if isinstance(element, ComplexType):
        return "complex"
    name = element_text(element)
    return "quant" if name.startswith("!quant") else "float"


def choose(op: Operation) -> OpRow:
    """Returns the row that lowers `op`. Raises StageFailure with kind and reason if there is none."""
    rows = TABLE.stablehlo(op.name)
    if not rows:
        raise StageFailure(STAGE, op.name, "expected an op with a row in compiler/ops, got none", kind="notimpl")
    if not any(row.lowered for row in rows):
        raise StageFailure(STAGE, op.name, rows[0].reason, kind=rows[0].lowering)
    values = [*op.operands, *op.results]
    kinds = [type_class(v) for v in values]
    if "complex" in kinds:
        message = f"complex numbers: the device's registers and packers know no complex number format{WAY_OUT}"
        raise StageFailure(STAGE, op.name, message, kind="never")
    if any(isinstance(v.type, TensorType) and DYNAMIC_INDEX in v.type.get_shape() for v in values):
        message = "dynamic shape: a program's buffers are placed when it is compiled; try sizes for it (--shape)"
        raise StageFailure(STAGE, op.name, message, kind="never")
    decisive = kinds[0] if kinds else ""
    for row in rows:
        if decisive in row.dtypes:
            return row
    known = sorted(set().union(*(row.dtypes for row in rows)))
    first = values[0].type if values else "nothing"
    raise StageFailure(STAGE, op.name, f"expected elements of {', '.join(known)}, got {first}", kind="notimpl")


@dataclass(frozen=True)
class StablehloToTtir(ModulePass):
    """Rewrites each op to ttir by its row or pattern, once jaxlib has parsed and verified the module."""

    name = "stablehlo-to-ttir"
    named: bool = False
    """Whether ops get tt-mlir's names and forms where these are less general than ours."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Replaces the functions of `op`. Raises StageFailure naming the first op that cannot be lowered."""
        new_functions = Functions(lower_ops, named=self.named)
        for func in functions(op):
            _lower_function(func, new_functions)
        if new_functions.made:
            op.body.block.add_ops(callee for callee in new_functions.made if callee is not None)


def _lower_function(func: FuncOp, new_functions: Functions) -> None:
    old = func.body.blocks[0]
    block = Block(arg_types=[as_real(a.type) if new_functions.named else a.type for a in old.args])
    results = lower_ops(old.ops, block, dict(zip(old.args, block.args, strict=True)), new_functions)
    block.add_op(ReturnOp.create(operands=results))
    func.detach_region(func.regions[0])
    func.add_region(Region(block))
    func.function_type = function_type(block.args, results)


def lower_ops(
    ops: Iterable[Operation], block: Block, values: dict[SSAValue, SSAValue], new_functions: Functions
) -> list[SSAValue]:
    """Lowers `ops` into `block` and adds their results to `values`; returns the operands of their terminator."""
    for op in ops:
        operands = [values[v] for v in op.operands]
        if isinstance(op, ReturnOp) or op.name == "stablehlo.return":
            return operands
        if isinstance(op, CallOp):
            made_call = CallOp(op.callee, operands, [r.type for r in op.results])
            made_call.location = op.location
            block.add_op(made_call)
            results: Any = list(made_call.results)
        elif op.name.startswith("ttir."):
            results = _copy(op, operands, block)
        else:
            before = block.last_op
            try:
                results = _lower(op, Emit(op, operands, block, new_functions, values))
            except StageFailure as refused:
                refused.source = _number(op) if refused.source is None else refused.source
                raise
            mark_parts(_ops_after(block, before), [results] if isinstance(results, SSAValue) else results)
        if isinstance(results, SSAValue):
            results = [results]
        values.update(zip(op.results, results, strict=True))
    return []


def _ops_after(block: Block, op: Operation | None) -> Iterator[Operation]:
    """Yields the ops that were appended after `op`; all ops if `op` is None."""
    current = block.first_op if op is None else op.next_op
    while current is not None:
        yield current
        current = current.next_op


def _lower(op: Operation, emit: Emit) -> Any:
    if emit.functions is not None and emit.functions.named and (pattern := NAMED.get(op.name)) is not None:
        result = pattern(emit)
        if result is not None:
            return result
    row = choose(op)
    if row.lowering == "row":
        return emit.emit(row.ttir, emit.operands, op.results[0].type)
    return PATTERNS[op.name](emit)


def _number(op: Operation) -> int | None:
    number = op.attributes.get(SOURCE)
    return number.data if isinstance(number, IntAttr) else None


def _copy(op: Operation, operands: list[SSAValue], block: Block) -> list[SSAValue]:
    copied = ttir.CLASSES[op.name.removeprefix("ttir.")].create(
        operands=operands,
        result_types=[r.type for r in op.results],
        properties=dict(op.properties),
        location=op.location,
    )
    block.add_op(copied)
    return list(copied.results)
