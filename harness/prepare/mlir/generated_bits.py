"""Has XLA give random bits in the type that a module declares: its own are always unsigned integers."""

from __future__ import annotations

from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.door import context, load, to_bytecode
from opscope.harness.prepare.mlir.traversal import ops_in

_OP = "stablehlo.rng_bit_generator"


def in_declared_types(module: ir.Module) -> ir.Module:
    """A copy in which such bits are drawn as unsigned integers and taken for what they are declared as; the module
    itself if all are unsigned."""
    if not any(map(_is_other, ops_in(module, _OP))):
        return module
    with context(), ir.Location.unknown():
        copy = load(to_bytecode(module))
        for op in filter(_is_other, ops_in(copy, _OP)):
            state, bits = (ir.RankedTensorType(result.type) for result in op.results)
            unsigned = ir.IntegerType.get_unsigned(_width(bits.element_type))
            with ir.InsertionPoint(op):
                drawn = ir.Operation.create(
                    _OP,
                    results=[state, ir.RankedTensorType.get(bits.shape, unsigned)],
                    operands=list(op.operands),
                    attributes={name: op.attributes[name] for name in op.attributes},
                )
                declared = ir.Operation.create("stablehlo.bitcast_convert", results=[bits], operands=[drawn.results[1]])
            op.results[0].replace_all_uses_with(drawn.results[0])
            op.results[1].replace_all_uses_with(declared.results[0])
            op.erase()
    return copy


def _is_other(op: ir.Operation) -> bool:
    """Whether bits are declared as something else than unsigned integers."""
    return not str(ir.RankedTensorType(op.results[1].type).element_type).startswith("ui")


def _width(element: ir.Type) -> int:
    """Bits of an element."""
    kind = ir.IntegerType if isinstance(element, ir.IntegerType) else ir.FloatType
    return kind(element).width
