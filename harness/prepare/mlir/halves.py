"""Has XLA compute f16 where it compiles no conversion of it: its code for a processor without F16C calls functions that
jaxlib does not have. Such conversions become integer operations, and what would need them is computed in float32.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from opscope.base.op_families import DATA_MOVEMENT, op_family
from opscope.harness.prepare.mlir.door import context, load, to_bytecode
from opscope.harness.prepare.mlir.traversal import ops_in

CONVERSION = """func.func @main(%x: tensor<f16>) -> tensor<f32> {
  %y = stablehlo.convert %x : (tensor<f16>) -> tensor<f32>
  return %y : tensor<f32>
}"""
"""What XLA compiles where it needs none of this."""

_CONVERT = "stablehlo.convert"
_BITS_ALONE = frozenset(
    f"stablehlo.{name}"
    for name in ("bitcast_convert", "constant", "custom_call", "is_finite", "optimization_barrier", "return")
)
"""Ops of f16, beside those that move data, that XLA compiles without a conversion."""

_TO_FLOAT = """func.func @main(%x: tensor<{shape}f16>) -> tensor<{shape}f32> {{
  %short = stablehlo.bitcast_convert %x : (tensor<{shape}f16>) -> tensor<{shape}ui16>
  %bits = stablehlo.convert %short : (tensor<{shape}ui16>) -> tensor<{shape}ui32>
  %sign_bit = stablehlo.constant dense<0x8000> : tensor<{shape}ui32>
  %sign = stablehlo.and %bits, %sign_bit : tensor<{shape}ui32>
  %size = stablehlo.xor %bits, %sign : tensor<{shape}ui32>
  %13 = stablehlo.constant dense<13> : tensor<{shape}ui32>
  %16 = stablehlo.constant dense<16> : tensor<{shape}ui32>
  %moved = stablehlo.shift_left %size, %13 : tensor<{shape}ui32>
  %bias = stablehlo.constant dense<0x38000000> : tensor<{shape}ui32>
  %normal = stablehlo.add %moved, %bias : tensor<{shape}ui32>
  %infinity = stablehlo.constant dense<0x7F800000> : tensor<{shape}ui32>
  %special = stablehlo.or %moved, %infinity : tensor<{shape}ui32>
  %count = stablehlo.convert %size : (tensor<{shape}ui32>) -> tensor<{shape}f32>
  %unit = stablehlo.constant dense<0x33800000> : tensor<{shape}f32>
  %scaled = stablehlo.multiply %count, %unit : tensor<{shape}f32>
  %denormal = stablehlo.bitcast_convert %scaled : (tensor<{shape}f32>) -> tensor<{shape}ui32>
  %least = stablehlo.constant dense<0x400> : tensor<{shape}ui32>
  %above = stablehlo.constant dense<0x7C00> : tensor<{shape}ui32>
  %is_small = stablehlo.compare LT, %size, %least : (tensor<{shape}ui32>, tensor<{shape}ui32>) -> tensor<{shape}i1>
  %is_special = stablehlo.compare GE, %size, %above : (tensor<{shape}ui32>, tensor<{shape}ui32>) -> tensor<{shape}i1>
  %finite = stablehlo.select %is_small, %denormal, %normal : tensor<{shape}i1>, tensor<{shape}ui32>
  %unsigned = stablehlo.select %is_special, %special, %finite : tensor<{shape}i1>, tensor<{shape}ui32>
  %high = stablehlo.shift_left %sign, %16 : tensor<{shape}ui32>
  %whole = stablehlo.or %unsigned, %high : tensor<{shape}ui32>
  %y = stablehlo.bitcast_convert %whole : (tensor<{shape}ui32>) -> tensor<{shape}f32>
  return %y : tensor<{shape}f32>
}}"""
"""Exact: a denormal is its bits times 2^-24."""

_TO_HALF = """func.func @main(%x: tensor<{shape}f32>) -> tensor<{shape}f16> {{
  %bits = stablehlo.bitcast_convert %x : (tensor<{shape}f32>) -> tensor<{shape}ui32>
  %sign_bit = stablehlo.constant dense<0x80000000> : tensor<{shape}ui32>
  %sign = stablehlo.and %bits, %sign_bit : tensor<{shape}ui32>
  %size = stablehlo.xor %bits, %sign : tensor<{shape}ui32>
  %1 = stablehlo.constant dense<1> : tensor<{shape}ui32>
  %13 = stablehlo.constant dense<13> : tensor<{shape}ui32>
  %16 = stablehlo.constant dense<16> : tensor<{shape}ui32>
  %cut = stablehlo.shift_right_logical %size, %13 : tensor<{shape}ui32>
  %odd = stablehlo.and %cut, %1 : tensor<{shape}ui32>
  %bias = stablehlo.constant dense<0xC8000FFF> : tensor<{shape}ui32>
  %biased = stablehlo.add %size, %bias : tensor<{shape}ui32>
  %nearest = stablehlo.add %biased, %odd : tensor<{shape}ui32>
  %normal = stablehlo.shift_right_logical %nearest, %13 : tensor<{shape}ui32>
  %absolute = stablehlo.bitcast_convert %size : (tensor<{shape}ui32>) -> tensor<{shape}f32>
  %half = stablehlo.constant dense<0.5> : tensor<{shape}f32>
  %rounded = stablehlo.add %absolute, %half : tensor<{shape}f32>
  %sum = stablehlo.bitcast_convert %rounded : (tensor<{shape}f32>) -> tensor<{shape}ui32>
  %half_bits = stablehlo.constant dense<0x3F000000> : tensor<{shape}ui32>
  %denormal = stablehlo.subtract %sum, %half_bits : tensor<{shape}ui32>
  %infinity = stablehlo.constant dense<0x7C00> : tensor<{shape}ui32>
  %quiet = stablehlo.constant dense<0x7E00> : tensor<{shape}ui32>
  %least = stablehlo.constant dense<0x38800000> : tensor<{shape}ui32>
  %above = stablehlo.constant dense<0x47800000> : tensor<{shape}ui32>
  %last = stablehlo.constant dense<0x7F800000> : tensor<{shape}ui32>
  %is_small = stablehlo.compare LT, %size, %least : (tensor<{shape}ui32>, tensor<{shape}ui32>) -> tensor<{shape}i1>
  %is_large = stablehlo.compare GE, %size, %above : (tensor<{shape}ui32>, tensor<{shape}ui32>) -> tensor<{shape}i1>
  %is_nan = stablehlo.compare GT, %size, %last : (tensor<{shape}ui32>, tensor<{shape}ui32>) -> tensor<{shape}i1>
  %finite = stablehlo.select %is_small, %denormal, %normal : tensor<{shape}i1>, tensor<{shape}ui32>
  %number = stablehlo.select %is_large, %infinity, %finite : tensor<{shape}i1>, tensor<{shape}ui32>
  %unsigned = stablehlo.select %is_nan, %quiet, %number : tensor<{shape}i1>, tensor<{shape}ui32>
  %low = stablehlo.shift_right_logical %sign, %16 : tensor<{shape}ui32>
  %whole = stablehlo.or %unsigned, %low : tensor<{shape}ui32>
  %short = stablehlo.convert %whole : (tensor<{shape}ui32>) -> tensor<{shape}ui16>
  %y = stablehlo.bitcast_convert %short : (tensor<{shape}ui16>) -> tensor<{shape}f16>
  return %y : tensor<{shape}f16>
}}"""
"""To the nearest, ties to even: a denormal's bits are what is left of 0.5 + x, whose last place is 2^-24."""


def spelled_out(module: ir.Module) -> ir.Module:
    """A copy in which each op of f16 is computed in float32 and rounded, as XLA does itself, by integer operations.

    Raises ir.MLIRError for an op that has no float32 form.
    """
    copy = load(to_bytecode(module))
    with context(), ir.Location.unknown():
        for op in ops_in(copy):
            if op.name.startswith(("stablehlo.", "chlo.")) and not op.regions and not _is_kept(op):
                _in_float32(op)
        copy.operation.verify()
    return copy


def _is_kept(op: ir.Operation) -> bool:
    """Whether XLA needs no conversion for an op."""
    halves = any(_is_half(value.type) for value in (*op.operands, *op.results))
    return not halves or op.name in _BITS_ALONE or op_family(op.name) in DATA_MOVEMENT


def _is_half(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and isinstance(type_.element_type, ir.F16Type)


def _float32(type_: ir.Type) -> ir.Type:
    return ir.RankedTensorType.get(ir.RankedTensorType(type_).shape, ir.F32Type.get())


def _in_float32(op: ir.Operation) -> None:
    """Puts an op on float32 in the place of one on f16; of conversions from and to float32 nothing is left of it."""
    with ir.InsertionPoint(op):
        operands = [_inlined(_TO_FLOAT, value) if _is_half(value.type) else value for value in op.operands]
        types = [_float32(result.type) if _is_half(result.type) else result.type for result in op.results]
        if op.name == _CONVERT and operands[0].type == types[0]:
            results = operands
        else:
            attributes = {name: op.attributes[name] for name in op.attributes}
            results = ir.Operation.create(op.name, types, operands, attributes).results
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(_inlined(_TO_HALF, new) if _is_half(old.type) else new)
    op.erase()


def _inlined(text: str, value: ir.Value) -> ir.Value:
    """The result of a function of one value, whose operations are written at the insertion point."""
    shape = "".join(f"{size}x" for size in ir.RankedTensorType(value.type).shape)
    written = load(text.format(shape=shape))  # named, since its ops live no longer than it does
    [block] = written.body.operations[0].regions[0].blocks
    values = {block.arguments[0]: value}
    *inner, last = (view.operation for view in block.operations)
    for op in inner:
        copy = op.clone()
        for index, operand in enumerate(op.operands):
            copy.operands[index] = values[operand]
        values[op.results[0]] = copy.results[0]
    return values[last.operands[0]]
