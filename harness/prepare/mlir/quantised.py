"""Ops of quantised tensors as the specification has them, for XLA, which has no such types: dequantised, computed,
quantised. Arguments and results are the stored integers."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from opscope.base.quantised.dequantised import as_integers, dequantise, ops_of
from opscope.harness.prepare.mlir.door import Module, context, parse, to_bytecode


def spelled_out(module: Module, *, wide: bool, off: float = 0.0, relative: float = 0.0) -> Module:
    """A copy of `module` on integers and floats; `wide`: the floats are double, so that only quantising rounds.

    What is quantised is first made larger by `off` steps of its type and by `relative` of itself (or smaller, where
    these are negative). Raises ir.MLIRError if jaxlib's passes refuse an op.
    """
    copy = parse(to_bytecode(module))
    with context(), ir.Location.unknown():
        dequantise(copy)
        as_integers(copy)
        if wide:
            _in_double(copy)
        if off or relative:
            _moved(copy, off, relative)
        copy.operation.verify()
    return copy


def _moved(module: Module, off: float, relative: float) -> None:
    """Moves what is rounded to an integer, before it is clamped."""
    from jaxlib.mlir.dialects import stablehlo

    for op in ops_of(module.operation):
        clamp = op.operands[0].owner if op.name == "stablehlo.round_nearest_even" else None
        if clamp is None or getattr(clamp, "name", "") != "stablehlo.clamp":
            continue
        value = clamp.operands[1]
        element = ir.RankedTensorType(value.type).element_type
        with ir.InsertionPoint(clamp), op.location:
            parts = [
                stablehlo.constant(ir.DenseElementsAttr.get_splat(value.type, ir.FloatAttr.get(element, number)))
                for number in (relative, off)
            ]
            way = stablehlo.add(stablehlo.multiply(stablehlo.abs(value), parts[0]), parts[1])
            clamp.operands[1] = stablehlo.add(value, way)


def _in_double(module: Module) -> None:
    """Has the one function of a module compute in double precision; its arguments and results stay as they are."""
    functions = [view.operation for view in module.body.operations]
    if len(functions) != 1:
        return
    [block] = functions[0].regions[0].blocks
    inner = [op for view in block.operations for op in ops_of(view.operation)]
    for op in inner:
        for region in op.regions:
            for each in region.blocks:
                for argument in each.arguments:
                    argument.set_type(_double(argument.type))
        if op.name == "stablehlo.constant":
            if (kind := _double(op.results[0].type)) != op.results[0].type:
                with ir.InsertionPoint(op), op.location:
                    made = ir.Operation.create(
                        "stablehlo.convert", [kind], [op.results[0]], ip=ir.InsertionPoint.after(op)
                    )
                op.results[0].replace_all_uses_except(made.result, made)
            continue
        for result in op.results:
            result.set_type(_double(result.type))
    for argument in block.arguments:
        if (kind := _double(argument.type)) != argument.type:
            made = ir.Operation.create(
                "stablehlo.convert", [kind], [argument], ip=ir.InsertionPoint.at_block_begin(block)
            )
            argument.replace_all_uses_except(made.result, made)
    ending: Any = list(block.operations)[-1].operation
    declared = ir.FunctionType(ir.TypeAttr(functions[0].attributes["function_type"]).value).results
    for index, kind in enumerate(declared):
        if ending.operands[index].type != kind:
            made = ir.Operation.create(
                "stablehlo.convert", [kind], [ending.operands[index]], ip=ir.InsertionPoint(ending)
            )
            ending.operands[index] = made.result


def _double(kind: Any) -> Any:
    """A tensor type with f64 in place of f32; others as they are."""
    if not isinstance(kind, ir.RankedTensorType) or not isinstance(kind.element_type, ir.F32Type):
        return kind
    return ir.RankedTensorType.get(kind.shape, ir.F64Type.get(), kind.encoding)
