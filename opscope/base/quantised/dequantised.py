"""Spells out ops of quantised tensors as StableHLO's specification has them: dequantised, computed, quantised again.

jaxlib's pass does so for most ops. Those with a region, which it leaves, are rewritten here.
"""

from __future__ import annotations

from typing import Any

from opscope.base.quantised.types import PREFIX, quantised_type

DEQUANTISED = "builtin.module(func.func(stablehlo-legalize-quantized-op-to-qdq))"
"""What is left after it on quantised tensors: uniform_quantize, uniform_dequantize, and ops that only move values."""
_AS_INTEGERS = "builtin.module(func.func(stablehlo-legalize-quant-to-math))"
_BROADCASTS = "chlo.broadcast_"
WITH_BODIES = frozenset(
    f"stablehlo.{name}" for name in ("reduce", "reduce_window", "scatter", "select_and_scatter", "sort", "map")
)


def dequantise(module: Any) -> None:
    """Rewrites a module of jaxlib in place. Raises MLIRError if its pass refuses an op."""
    from jaxlib.mlir import passmanager
    from jaxlib.mlir.dialects import stablehlo

    stablehlo.register_stablehlo_passes()  # again does nothing
    for op in ops_of(module.operation):
        if op.name in WITH_BODIES and any(is_quantised(value.type) for value in (*op.operands, *op.results)):
            _in_floats(op)
    passmanager.PassManager.parse(DEQUANTISED).run(module.operation)


def as_integers(module: Any) -> None:
    """Turns quantised tensors into tensors of their integers, and what `dequantise` left of them into arithmetic.

    Raises MLIRError if jaxlib's pass refuses an op.
    """
    from jaxlib.mlir import passmanager

    passmanager.PassManager.parse(_AS_INTEGERS).run(module.operation)
    for op in ops_of(module.operation):
        if op.name.startswith(_BROADCASTS):
            _spread(op)


def _spread(op: Any) -> None:
    """Writes a broadcasting op of chlo as StableHLO's: jaxlib's pass refuses numbers along a dim that is not last."""
    from jaxlib.mlir import ir

    result = ir.RankedTensorType(op.results[0].type)
    dims = list(op.attributes["broadcast_dimensions"]) if "broadcast_dimensions" in op.attributes else None
    operands = []
    for operand in op.operands:
        tensor = ir.RankedTensorType(operand.type)
        if tensor.shape != result.shape:
            kind = ir.RankedTensorType.get(result.shape, tensor.element_type)
            places = (
                dims if dims is not None and len(dims) == tensor.rank else range(result.rank - tensor.rank, result.rank)
            )
            made = ir.Operation.create(
                "stablehlo.broadcast_in_dim",
                [kind],
                [operand],
                loc=op.location,
                ip=ir.InsertionPoint(op),
                attributes={"broadcast_dimensions": ir.DenseI64ArrayAttr.get(list(places), op.context)},
            )
            operand = made.result
        operands.append(operand)
    name = f"stablehlo.{op.name.removeprefix(_BROADCASTS)}"
    made = ir.Operation.create(name, [result], operands, loc=op.location, ip=ir.InsertionPoint(op))
    op.results[0].replace_all_uses_with(made.result)
    op.erase()


def ops_of(operation: Any) -> list[Any]:
    """All ops below an operation, outer ones first."""
    from jaxlib.mlir import ir

    operations: list[Any] = []
    operation.walk(lambda op: operations.append(op) or ir.WalkResult.ADVANCE, ir.WalkOrder.PRE_ORDER)
    return operations


def is_quantised(kind: Any) -> bool:
    """Whether a type is a tensor of quantised elements."""
    return PREFIX in str(kind)


def expressed(kind: Any) -> Any:
    """The tensor of floats that a quantised tensor type stands for; other types as they are."""
    from jaxlib.mlir import ir

    if not is_quantised(kind):
        return kind
    tensor = ir.RankedTensorType(kind)
    quantised = quantised_type(str(tensor.element_type))
    name = "f32" if quantised is None else quantised.expressed
    return ir.RankedTensorType.get(tensor.shape, ir.Type.parse(name), tensor.encoding)


def _in_floats(op: Any) -> None:
    """Has an op with a region take and give floats, its body too."""
    from jaxlib.mlir import ir

    with op.location:
        for index, operand in enumerate(op.operands):
            if is_quantised(operand.type):
                made = ir.Operation.create(
                    "stablehlo.uniform_dequantize", [expressed(operand.type)], [operand], ip=ir.InsertionPoint(op)
                )
                op.operands[index] = made.result
        for region in op.regions:
            for block in region.blocks:
                inner = [each for view in block.operations for each in ops_of(view.operation)]
                for value in (*block.arguments, *(result for each in inner for result in each.results)):
                    value.set_type(expressed(value.type))
        for result in op.results:
            if is_quantised(result.type):
                kind = result.type
                result.set_type(expressed(kind))
                made = ir.Operation.create(
                    "stablehlo.uniform_quantize", [kind], [result], ip=ir.InsertionPoint.after(op)
                )
                result.replace_all_uses_except(made.result, made)
