"""Custom calls that are another word for an op, as that op: XLA's CPU has no function behind them."""

from __future__ import annotations

from jaxlib.mlir import ir

from opscope.base.op_families import STANDS_FOR
from opscope.harness.prepare.mlir.door import context, load, to_bytecode
from opscope.harness.prepare.mlir.traversal import main_of


def as_ops(module: ir.Module) -> ir.Module:
    """A copy in which `@main` has the ops that its custom calls stand for; the module itself if none does."""
    if not _calls(module):
        return module
    with context(), ir.Location.unknown():
        copy = load(to_bytecode(module))
        for call, op_name in _calls(copy):
            with ir.InsertionPoint(call):
                made = ir.Operation.create(op_name, [each.type for each in call.results], list(call.operands))
            for old, new in zip(call.results, made.results, strict=True):
                old.replace_all_uses_with(new)
            call.erase()
    return copy


def _calls(module: ir.Module) -> list[tuple[ir.Operation, str]]:
    """The calls of `@main` that stand for an op, and its name."""
    calls = []
    for view in main_of(module).regions[0].blocks[0].operations:
        op = view.operation
        if op.name == "stablehlo.custom_call":
            name = STANDS_FOR.get(f"{op.name}:{ir.StringAttr(op.attributes['call_target_name']).value}")
            calls += [] if name is None else [(op, name)]
    return calls
