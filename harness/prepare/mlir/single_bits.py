"""Has XLA convert bits from and to i1 as the specification says: it takes an i1 for eight bits, and its results have
another shape than the module declares."""

from __future__ import annotations

from jaxlib.mlir import ir

from opscope.harness.prepare.mlir.door import context, load, to_bytecode
from opscope.harness.prepare.mlir.traversal import ops_in

_OP = "stablehlo.bitcast_convert"
_SPREAD = """func.func private @{name}(%x: {source}) -> {target} {{
  %0 = stablehlo.bitcast_convert %x : ({source}) -> {words}
  %1 = stablehlo.broadcast_in_dim %0, dims = {dims} : ({words}) -> {each}
  %2 = stablehlo.iota dim = {last} : {each}
  %3 = stablehlo.shift_right_logical %1, %2 : {each}
  %one = stablehlo.constant dense<1> : {each}
  %4 = stablehlo.and %3, %one : {each}
  %5 = stablehlo.compare EQ, %4, %one : ({each}, {each}) -> {target}
  return %5 : {target}
}}"""
_PACK = """func.func private @{name}(%x: {source}) -> {target} {{
  %0 = stablehlo.convert %x : ({source}) -> {each}
  %1 = stablehlo.iota dim = {last} : {each}
  %2 = stablehlo.shift_left %0, %1 : {each}
  %zero = stablehlo.constant dense<0> : tensor<{word}>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.or across dimensions = [{last}]
    : ({each}, tensor<{word}>) -> {words}
  %4 = stablehlo.bitcast_convert %3 : ({words}) -> {target}
  return %4 : {target}
}}"""


def with_single_bits(module: ir.Module) -> ir.Module:
    """A copy in which such conversions are calls of functions that shift and mask; the module itself if it has none."""
    if not any(_single(op) for op in ops_in(module, _OP)):
        return module
    with context(), ir.Location.unknown():
        copy = load(to_bytecode(module))
        for number, op in enumerate(op for op in ops_in(copy, _OP) if _single(op)):
            name = f"opscope_single_bits_{number}"
            written = load(_text(op, name))  # named, since its ops live no longer than it does
            with ir.InsertionPoint(copy.body):
                written.body.operations[0].operation.clone()
            with ir.InsertionPoint(op):
                call = ir.Operation.create(
                    "func.call",
                    results=[op.results[0].type],
                    operands=list(op.operands),
                    attributes={"callee": ir.FlatSymbolRefAttr.get(name)},
                )
            op.results[0].replace_all_uses_with(call.results[0])
            op.erase()
    return copy


def _types(op: ir.Operation) -> tuple[ir.RankedTensorType, ir.RankedTensorType]:
    return ir.RankedTensorType(op.operands[0].type), ir.RankedTensorType(op.results[0].type)


def _single(op: ir.Operation) -> bool:
    """Whether one side, and one alone, is of i1."""
    source, target = _types(op)
    return (str(source.element_type) == "i1") != (str(target.element_type) == "i1")


def _text(op: ir.Operation, name: str) -> str:
    """The function that does what `op` should."""
    source, target = _types(op)
    spread = str(target.element_type) == "i1"
    *outer, count = (target if spread else source).shape
    word = f"ui{count}"
    return (_SPREAD if spread else _PACK).format(
        name=name,
        source=source,
        target=target,
        word=word,
        last=len(outer),
        dims=list(range(len(outer))),
        words=f"tensor<{''.join(f'{size}x' for size in outer)}{word}>",
        each=f"tensor<{''.join(f'{size}x' for size in (*outer, count))}{word}>",
    )
