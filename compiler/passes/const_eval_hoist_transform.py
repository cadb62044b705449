"""Pass `const-eval-hoist-transform`: ops that depend on parameters and constants alone are computed once.

Such ops move to functions of their own, one per connected part. `ttcore.load_cached` in their place returns their
results, and the runtime computes them again only if the parameters change. The host brings a convolution's weights
into their order first (`ttir_conv_weights.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.load_cached import LoadCachedOp
from opscope.compiler.dialects.ttir_conv_weights import prepares_weights
from opscope.compiler.ir.functions import CONST_EVAL, KIND, functions, kind_of
from opscope.compiler.passes.tt_populate_argument_types import constant_arguments

NEVER = frozenset({"control", "collective", "host", "random", "layout"})
"""Families whose ops are never hoisted."""


@dataclass(frozen=True)
class ConstEvalHoistTransform(ModulePass):
    """Moves what depends on parameters and constants alone to functions; `ttcore.load_cached` loads their results,
    which the device keeps until parameters change (`Profile.once`)."""

    name = "const-eval-hoist-transform"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes the module in place; running it again changes nothing."""
        for func in functions(op):
            if not kind_of(func):
                for hoisted in _hoist(func):
                    op.body.block.add_op(hoisted)


def _hoist(func: FuncOp) -> list[FuncOp]:
    block = func.body.blocks[0]
    known: set[SSAValue] = {arg for arg, kept in zip(block.args, constant_arguments(func), strict=True) if kept}
    hoisted: dict[Operation, None] = {}
    for op in block.ops:
        if not _may_move(op) or not all(value in known for value in op.operands):
            continue
        known.update(op.results)
        if any(value not in block.args for value in op.operands) or not prepares_weights(op):
            hoisted[op] = None
    if all(op in hoisted or isinstance(op, ReturnOp) or prepares_weights(op) for op in block.ops):
        return []  # in a function of constants alone, results are computed where they are needed
    parts = _parts(list(hoisted))
    new_functions = [_function(func, number, part) for number, part in enumerate(parts)]
    for op in hoisted:
        if op.parent is block:  # a constant, of which each part has its own copy
            op.detach()
            op.erase()
    return new_functions


def _may_move(op: Operation) -> bool:
    """Whether an op is a ttir op that calls no function."""
    is_ttir = isinstance(op, RowOp) and op.name.startswith("ttir.") and op.ROW.group not in NEVER
    return is_ttir and "programs" not in op.properties


def _parts(ops: list[Operation]) -> list[list[Operation]]:
    """Groups the ops into connected parts, each in order. Ops that only make a constant connect nothing: each part has
    its own copy.
    """
    part = {op: number for number, op in enumerate(ops)}

    def find(op: Operation) -> int:
        number = part[op]
        while part[ops[number]] != number:
            number = part[ops[number]]
        part[op] = number
        return number

    for op in ops:
        for value in op.operands:
            if isinstance(value.owner, Operation) and value.owner in part and not _is_constant(value.owner):
                low, high = sorted((find(op), find(value.owner)))
                part[ops[high]] = low
    parts: dict[int, list[Operation]] = {}
    for op in ops:
        if _is_constant(op) and all(use.operation in part for value in op.results for use in value.uses):
            continue
        parts.setdefault(find(op), []).append(op)
    return list(parts.values())


def _is_constant(op: Operation) -> bool:
    return isinstance(op, RowOp) and op.ROW.group == "creation"


def _function(func: FuncOp, number: int, ops: list[Operation]) -> FuncOp:
    """Makes the function of one part, and replaces the part by an op that loads its results."""
    inside = set(ops)
    copies: dict[SSAValue, Operation] = {}
    for op in ops:
        for index, value in enumerate(op.operands):
            if isinstance(value.owner, Operation) and value.owner not in inside and _is_constant(value.owner):
                if value not in copies:
                    copies[value] = value.owner.clone()
                op.operands[index] = copies[value].results[0]
    inside |= set(copies.values())
    operands = list(dict.fromkeys(v for op in ops for v in op.operands if v.owner not in inside))
    results = [v for op in ops for v in op.results if any(use.operation not in inside for use in v.uses)]
    name = f"{func.sym_name.data}_const_eval_{number}"
    load = LoadCachedOp.create(
        operands=operands,
        result_types=[v.type for v in results],
        properties={"callee": SymbolRefAttr(name)},
        location=ops[0].location,
    )
    parent = ops[0].parent
    assert parent is not None
    parent.insert_op_before(load, ops[0])
    for old, new in zip(results, load.results, strict=True):
        old.replace_uses_with_if(new, lambda use: use.operation not in inside)
    body = Block(arg_types=[v.type for v in operands])
    body.add_ops(copies.values())
    for op in ops:
        op.detach()
        body.add_op(op)
        for index, value in enumerate(op.operands):
            if value in operands:
                op.operands[index] = body.args[operands.index(value)]
    body.add_op(ReturnOp(*results))
    new_function = FuncOp(
        name, ([v.type for v in body.args], [v.type for v in results]), Region(body), visibility="private"
    )
    new_function.attributes[KIND] = StringAttr(CONST_EVAL)
    return new_function


__all__ = ["ConstEvalHoistTransform"]
