"""Custom calls that are another word for an op, as that op, or for a composite: no function of XLA is behind them."""

from __future__ import annotations

from jaxlib.mlir import ir

from opscope.base.op_families import STANDS_FOR
from opscope.harness.prepare.mlir.door import context, load, to_bytecode
from opscope.harness.prepare.mlir.traversal import main_of
from opscope.harness.prepare.mlir.values import tensor_desc
from opscope.harness.record.records import TensorDesc


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


def alone(module: ir.Module) -> tuple[dict[str, str], list[TensorDesc]] | None:
    """Attributes and results of the custom call of the arguments that is the one op of `@main`; None of any other
    module."""
    block = main_of(module).regions[0].blocks[0]
    call, *others = [view.operation for view in block.operations]
    if call.name != "stablehlo.custom_call" or len(others) != 1 or list(call.results) != list(others[0].operands):
        return None
    if list(call.operands) != list(block.arguments):
        return None
    descs = [tensor_desc(result.type) for result in call.results]
    return {name: str(call.attributes[name]) for name in call.attributes}, descs


def _calls(module: ir.Module) -> list[tuple[ir.Operation, str]]:
    """The calls of `@main` that stand for an op, and its name."""
    calls = []
    for view in main_of(module).regions[0].blocks[0].operations:
        op = view.operation
        if op.name == "stablehlo.custom_call":
            name = STANDS_FOR.get(f"{op.name}:{ir.StringAttr(op.attributes['call_target_name']).value}")
            calls += [] if name is None else [(op, name)]
    return calls
