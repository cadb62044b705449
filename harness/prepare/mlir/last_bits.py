"""A module whose results all move by one unit in the last place: how much a model magnifies what any host must round.

Two implementations that both round rightly differ like that. The direction is drawn from the bits of each element and a
seed, so that every element of every op moves by itself (the idea of random rounding: Vignes' CESTAC, Verrou).
"""

from __future__ import annotations

from collections.abc import Iterator

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from opscope.harness.prepare.mlir.door import context, parse, to_bytecode

EXACT_WHERE_WHOLE = frozenset(
    {"add", "subtract", "multiply", "dot_general", "dot", "convolution", "reduce", "reduce_window", "einsum"}
)
"""Ops (without dialect) whose result is not rounded where it is a whole number that the type holds."""
ROUNDING = EXACT_WHERE_WHOLE | {
    "atan2",
    "batch_norm_inference",
    "cbrt",
    "cosine",
    "divide",
    "exponential",
    "exponential_minus_one",
    "fft",
    "log",
    "log_plus_one",
    "logistic",
    "power",
    "remainder",
    "rsqrt",
    "sine",
    "sqrt",
    "tan",
    "tanh",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bessel_i1e",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "lgamma",
    "sinh",
    "zeta",
}
"""Ops of `stablehlo` and `chlo` whose results are rounded; all others copy, compare or convert."""

_ENTERED = frozenset({"while", "case", "if"})
"""Ops whose regions are part of the program; those of others say what one element becomes."""

_TYPES = {
    "f64": (64, 52, 0x9E3779B97F4A7C15),
    "f32": (32, 23, 0x9E3779B1),
    "bf16": (16, 7, 0x9E3B),
    "f16": (16, 10, 0x9E3B),
}
"""Element type -> its bits, those of its mantissa, an odd factor that mixes them (of the golden ratio, as in Fibonacci
hashing)."""

_MOVED = """
func.func private @{name}(%r: {type}) -> {type} {{
  %bits = stablehlo.bitcast_convert %r : ({type}) -> {bits}
  %seed = stablehlo.constant dense<{seed}> : {bits}
  %odd = stablehlo.constant dense<{odd}> : {bits}
  %top = stablehlo.constant dense<{top}> : {bits}
  %one = stablehlo.constant dense<1> : {bits}
  %seeded = stablehlo.xor %bits, %seed : {bits}
  %mixed = stablehlo.multiply %seeded, %odd : {bits}
  %up = stablehlo.shift_right_logical %mixed, %top : {bits}
  %twice = stablehlo.add %up, %up : {bits}
  %step = stablehlo.subtract %twice, %one : {bits}
  %moved_bits = stablehlo.add %bits, %step : {bits}
  %moved = stablehlo.bitcast_convert %moved_bits : ({bits}) -> {type}
  %size = stablehlo.abs %r : {type}
  %least = stablehlo.constant dense<{least}> : {type}
  %whole_until = stablehlo.constant dense<{whole}> : {type}
  %normal = stablehlo.compare GT, %size, %least : ({type}, {type}) -> {flags}
  %before = stablehlo.is_finite %r : ({type}) -> {flags}
  %after = stablehlo.is_finite %moved : ({type}) -> {flags}
  %finite = stablehlo.and %before, %after : {flags}
  %floor = stablehlo.floor %r : {type}
  %no_fraction = stablehlo.compare EQ, %floor, %r : ({type}, {type}) -> {flags}
  %small = stablehlo.compare LE, %size, %whole_until : ({type}, {type}) -> {flags}
  %exact = stablehlo.and %no_fraction, %small : {flags}
  %rounded = stablehlo.not %exact : {flags}
  %may = stablehlo.and %normal, %finite : {flags}
  %moves = stablehlo.and %may, %rounded : {flags}
  %result = stablehlo.select %moves, %moved, %r : {flags}, {type}
  func.return %result : {type}
}}
"""


def moved(module: ir.Module, seed: int) -> ir.Module:
    """A copy of a module in which each element of each rounded result moves by a unit in its last place, up or down."""
    with context(), ir.Location.unknown():
        copy = parse(to_bytecode(module))
        functions: dict[tuple[ir.RankedTensorType, bool], str] = {}
        for op in [op for function in copy.body.operations for op in _program(function.operation)]:
            word = op.name.partition(".")[2]
            for result in op.results if word in ROUNDING else ():
                if (type_ := _rounded(result.type)) is not None:
                    name = functions.setdefault((type_, word in EXACT_WHERE_WHOLE), f"moved.{len(functions)}")
                    call = func.CallOp([type_], name, [result], ip=ir.InsertionPoint.after(op))
                    result.replace_all_uses_except(call.results[0], [call.operation])
        for (type_, whole), name in functions.items():
            copy.body.append(ir.Operation.parse(_function(name, type_, whole, seed)))
        copy.operation.verify()
    return copy


def _program(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops of a function, those in branches and bodies of loops included."""
    for region in op.regions:
        for block in region.blocks:
            for each in block.operations:
                yield each.operation
                if each.operation.name.partition(".")[2] in _ENTERED:
                    yield from _program(each.operation)


def _rounded(type_: ir.Type) -> ir.RankedTensorType | None:
    """The type, if it is a tensor of known sizes whose elements can be moved."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return None
    return type_ if str(type_.element_type) in _TYPES else None


def _function(name: str, type_: ir.RankedTensorType, whole: bool, seed: int) -> str:
    """The text of the function that moves a tensor; with `whole`, whole numbers that the type holds stay."""
    size, mantissa, odd = _TYPES[str(type_.element_type)]
    dims = "".join(f"{size}x" for size in type_.shape)
    least_exponent = 2 - (1 << (size - mantissa - 2))
    return _MOVED.format(
        name=name,
        type=f"tensor<{dims}{type_.element_type}>",
        bits=f"tensor<{dims}ui{size}>",
        flags=f"tensor<{dims}i1>",
        seed=seed * odd % (1 << size),
        odd=odd,
        top=size - 1,
        least=2.0**least_exponent,
        whole=float(2 << mantissa) if whole else -1.0,
    )
