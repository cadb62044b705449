"""Rebuilds a single-op module so that narrow floats are computed in float32: arguments widened, results rounded.

The signature of `@main` stays as declared: the rounding to the declared type is the last thing that the module does.
"""

from __future__ import annotations

import numpy as np
from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.door import context
from opscope.harness.prepare.mlir.traversal import main_of
from opscope.harness.prepare.mlir.values import dense_array

OWN_TYPE = frozenset(
    {
        "bitcast_convert",
        "convert",
        "reduce_precision",
        "is_finite",
        "rng",
        "rng_bit_generator",
        "custom_call",
        "next_after",
    }
)
"""Ops (without dialect) whose meaning lies in the type itself: computed as declared, also inside a region."""

NARROW = ("bf16", "f16", "tf32", "f8E", "f6E", "f4E")
"""Beginnings of the names of floating types narrower than float32."""

_KEPT = ("func.return", "stablehlo.return")


def widened(module: ir.Module, rounded: bool = True) -> ir.Module | None:
    """The module with its narrow floats computed in float32; None if it has none or they must not be widened.

    Raises ir.MLIRError if the widened module is not valid: an op that needs its own type.
    """
    main = main_of(module)
    top = [op.operation for op in main.regions[0].blocks[0].operations]
    if any(_own_type(op) for op in top) or not any(_narrow(v.type) for op in top for v in (*op.operands, *op.results)):
        return None
    with context(), ir.Location.unknown():
        wide = ir.Module.create()
        for op in module.body.operations:
            with ir.InsertionPoint(wide.body):
                _function(op.operation, declared=op.operation == main, rounded=rounded)
        wide.operation.verify()
    return wide


def _own_type(op: ir.Operation) -> bool:
    return op.name.partition(".")[2] in OWN_TYPE


def _narrow(type_: ir.Type) -> bool:
    """Whether a type is a tensor of floats narrower than float32."""
    return isinstance(type_, ir.RankedTensorType) and str(type_.element_type).startswith(NARROW)


def _wide(type_: ir.Type) -> ir.Type:
    """The type in which a value of `type_` is computed."""
    if not _narrow(type_):
        return type_
    tensor = ir.RankedTensorType(type_)
    return ir.RankedTensorType.get(tensor.shape, ir.F32Type.get(), tensor.encoding)


def _convert(value: ir.Value, to: ir.Type) -> ir.Value:
    """`value` as `to`, by a `stablehlo.convert` where the types differ."""
    if value.type == to:
        return value
    return ir.Operation.create("stablehlo.convert", results=[to], operands=[value]).results[0]


def _function(op: ir.Operation, declared: bool, rounded: bool) -> None:
    """Rebuilds one function; `declared`: it keeps its types and converts at its ends, at the last one if `rounded`."""
    type_ = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
    inputs, results = list(type_.inputs), list(type_.results)
    if not declared:
        inputs = [_wide(t) for t in inputs]
    if not (declared and rounded):
        results = [_wide(t) for t in results]
    kept = {n: op.attributes[n] for n in ("sym_name", "sym_visibility") if n in op.attributes}
    signature = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    rebuilt = ir.Operation.create("func.func", attributes={**kept, "function_type": signature}, regions=1)
    if not list(op.regions[0].blocks):
        return
    old = op.regions[0].blocks[0]
    new = ir.Block.create_at_start(rebuilt.regions[0], inputs, [ir.Location.unknown()] * len(inputs))
    with ir.InsertionPoint(new):
        values: dict[ir.Value, ir.Value] = {
            a: _convert(b, _wide(b.type)) for a, b in zip(old.arguments, new.arguments, strict=True)
        }
        _block(old, values, results)


def _block(old: ir.Block, values: dict[ir.Value, ir.Value], results: list[ir.Type] | None = None) -> None:
    """Rebuilds the ops of a block at the insertion point; `results`: types that the terminator must return."""
    for view in old.operations:
        op = view.operation
        operands = [values[v] for v in op.operands]
        if op.name in _KEPT and results is not None:
            operands = [_convert(v, t) for v, t in zip(operands, results, strict=True)]
        made_results = _exact(op, operands) if _own_type(op) else list(_operation(op, operands, values).results)
        values.update(zip(op.results, made_results, strict=True))


def _exact(op: ir.Operation, operands: list[ir.Value]) -> list[ir.Value]:
    """An op that keeps its own types, between conversions."""
    declared = [_convert(v, o.type) for v, o in zip(operands, op.operands, strict=True)]
    attributes = {name: op.attributes[name] for name in op.attributes}
    own = ir.Operation.create(op.name, [r.type for r in op.results], declared, attributes)
    return [_convert(r, _wide(r.type)) for r in own.results]


def _operation(op: ir.Operation, operands: list[ir.Value], values: dict[ir.Value, ir.Value]) -> ir.Operation:
    """An op on wide types, its regions rebuilt; they may use outer values."""
    attributes = {name: _attribute(op.attributes[name]) for name in op.attributes}
    operation = ir.Operation.create(
        op.name, [_wide(r.type) for r in op.results], operands, attributes, None, len(op.regions)
    )
    for old, new in zip(op.regions, operation.regions, strict=True):
        for block in old.blocks:
            types = [_wide(a.type) for a in block.arguments]
            fresh = ir.Block.create_at_start(new, types, [ir.Location.unknown()] * len(types))
            with ir.InsertionPoint(fresh):
                _block(block, {**values, **dict(zip(block.arguments, fresh.arguments, strict=True))})
    return operation


def _attribute(attr: ir.Attribute) -> ir.Attribute:
    """An attribute with narrow tensor literals widened; all others as they are."""
    if not isinstance(attr, ir.DenseElementsAttr) or not _narrow(attr.type):
        return attr
    array = dense_array(attr)
    if array is None:
        return attr
    values = np.ascontiguousarray(array, np.float32).reshape(array.shape)
    return ir.DenseElementsAttr.get(values, type=_wide(attr.type))  # pyright: ignore[reportCallIssue, reportArgumentType]
