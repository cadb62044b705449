"""Shardy's ops in a program for one device, where they split nothing: constants, annotations, bodies without a mesh."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from opscope.base.mesh.shardings import sharding_in
from opscope.harness.prepare.mlir.door import Module
from opscope.harness.prepare.mlir.traversal import ops_in

CONSTANT, BODIES = "sdy.constant", frozenset({"sdy.manual_computation", "sdy.named_computation"})
KEPT = frozenset({"sdy.mesh", "sdy.return"})


def without_shardy_ops(module: Module) -> Module:
    """The module, in place: `sdy.constant` is StableHLO's; where nothing is split, bodies take their ops' place, and so
    does the operand that another op hands on unchanged.

    What is not one of these stays: its op is refused by name.
    """
    ops = [op for op in ops_in(module) if op.name.startswith("sdy.") and op.name not in KEPT]
    if not ops:
        return module
    whole = sharding_in(module.operation) is None
    with module.context:
        for op in ops:
            if op.name == CONSTANT:
                _constant(op)
            elif not whole:
                continue
            elif op.name in BODIES:
                _inline(op)
            elif len(op.results) == 0 and len(op.regions) == 0:
                op.erase()
            elif len(op.operands) == len(op.results) == 1 and op.operands[0].type == op.results[0].type:
                op.results[0].replace_all_uses_with(op.operands[0])
                op.erase()
    return module


def _constant(op: Any) -> None:
    text = op.get_asm(print_generic_op_form=True, enable_debug_info=False)
    with op.location:
        new = ir.Operation.parse(text.replace(f'"{CONSTANT}"', '"stablehlo.constant"', 1)).operation
    ir.InsertionPoint(op).insert(new)
    new.location = op.location
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()


def _inline(op: Any) -> None:
    """Puts the body of an op in its place. One whose body has other types than the op takes and gives is left."""
    [block] = op.regions[0].blocks
    *inner, end = [view.operation for view in block.operations]
    outside = [value.type for value in (*op.operands, *op.results)]
    if outside != [value.type for value in (*block.arguments, *end.operands)]:
        return
    for argument, value in zip(block.arguments, op.operands, strict=True):
        argument.replace_all_uses_with(value)
    for each in inner:
        each.move_before(op)
    for result, value in zip(op.results, end.operands, strict=True):
        result.replace_all_uses_with(value)
    op.erase()
