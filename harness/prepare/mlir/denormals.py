"""Has a module hand its arguments through the call after which XLA keeps denormals (`base/xla/ieee_denormals.py`)."""

from __future__ import annotations

from jaxlib.mlir import ir

from opscope.base.xla import ieee_denormals
from opscope.harness.prepare.mlir.door import context, load, to_bytecode
from opscope.harness.prepare.mlir.traversal import main_of


def keeping_denormals(module: ir.Module) -> ir.Module:
    """A copy of the module whose `@main` begins with that call; a module without arguments is as it was."""
    with context(), ir.Location.unknown():
        copy = load(to_bytecode(module))
        block = main_of(copy).regions[0].blocks[0]
        arguments = list(block.arguments)
        if not arguments:
            return copy
        aliases = ", ".join(ieee_denormals.aliases(len(arguments)))
        with ir.InsertionPoint.at_block_begin(block):
            call = ir.Operation.create(
                "stablehlo.custom_call",
                results=[argument.type for argument in arguments],
                operands=arguments,
                attributes={
                    "call_target_name": ir.StringAttr.get(ieee_denormals.TARGET),
                    "api_version": ir.IntegerAttr.get(
                        ir.IntegerType.get_signless(32), ieee_denormals.TYPED_IN_STABLEHLO
                    ),
                    "has_side_effect": ir.BoolAttr.get(True),
                    "output_operand_aliases": ir.Attribute.parse(f"[{aliases}]"),
                },
            )
        for argument, result in zip(arguments, call.results, strict=True):
            argument.replace_all_uses_except(result, [call])
    return copy
