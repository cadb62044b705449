"""Cases of `suite:ops` that `jax.lax` has no function for, written as StableHLO text and called as functions.

`text_call` makes a JAX primitive of a module's text; lowering merges the module and calls its `main`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from opscope.models.op_cases import ABOVE, INSIDE, POSITIVE, Case, case

IMAGE, LINE = "tensor<2x3x4x6xf32>", "tensor<6xf32>"

UNARY = {
    "stablehlo.logistic": "",
    "stablehlo.round_nearest_even": "",
    **dict.fromkeys(("chlo.tan", "chlo.asin", "chlo.acos", "chlo.atanh", "chlo.erf_inv"), INSIDE),
    **dict.fromkeys(("chlo.lgamma", "chlo.digamma"), POSITIVE),
    "chlo.acosh": ABOVE,
    **dict.fromkeys(("chlo.asinh", "chlo.atan", "chlo.sinh", "chlo.cosh", "chlo.erf", "chlo.erfc", "chlo.square"), ""),
    "chlo.bessel_i1e": "",
}
"""Op of one operand -> its distribution. Of those that `jax.lax` has, no release of JAX has to write the op itself."""
TEXTS: dict[str, tuple[str, str, tuple[tuple[tuple[int, ...], str, str], ...]]] = {
    "if": (
        "(%p: tensor<i1>, %x: tensor<5x40xf32>)",
        '%0 = "stablehlo.if"(%p) ({ %1 = stablehlo.add %x, %x : tensor<5x40xf32> '
        "stablehlo.return %1 : tensor<5x40xf32> }, { %1 = stablehlo.negate %x : tensor<5x40xf32> "
        "stablehlo.return %1 : tensor<5x40xf32> }) : (tensor<i1>) -> tensor<5x40xf32>",
        (((), "bool", ""), ((5, 40), "float32", "")),
    ),
    "map": (
        "(%x: tensor<5x40xf32>, %y: tensor<5x40xf32>)",
        '%0 = "stablehlo.map"(%x, %y) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): '
        "%1 = stablehlo.multiply %a, %b : tensor<f32> stablehlo.return %1 : tensor<f32> }) "
        "{dimensions = array<i64: 0, 1>} : (tensor<5x40xf32>, tensor<5x40xf32>) -> tensor<5x40xf32>",
        (((5, 40), "float32", ""), ((5, 40), "float32", "")),
    ),
    **{
        f"{name}.bool": (
            "(%x: tensor<5x40xi1>, %y: tensor<5x40xi1>)",
            f'%0 = "stablehlo.{name}"(%x, %y) : (tensor<5x40xi1>, tensor<5x40xi1>) -> tensor<5x40xi1>',
            (((5, 40), "bool", ""), ((5, 40), "bool", "")),
        )
        for name in ("add", "multiply")
    },
    **{
        name: (
            "(%x: tensor<5x40xf32>)",
            f'%0 = "{name}"(%x) : (tensor<5x40xf32>) -> tensor<5x40xf32>',
            (((5, 40), "float32", law),),
        )
        for name, law in UNARY.items()
    },
    "cholesky": (
        "(%a: tensor<8x8xf32>)",
        '%0 = "stablehlo.cholesky"(%a) {lower = true} : (tensor<8x8xf32>) -> tensor<8x8xf32>',
        (((8, 8), "float32", ""),),
    ),
    **{
        f"triangular_solve.{'left' if left else 'right'}.{'lower' if lower else 'upper'}.{turned.lower()}": (
            "(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>)",
            f'%0 = "stablehlo.triangular_solve"(%a, %b) {{left_side = {str(left).lower()}, '
            f"lower = {str(lower).lower()}, "
            f"unit_diagonal = false, transpose_a = #stablehlo<transpose {turned}>}} "
            ": (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>",
            (((8, 8), "float32", ""), ((8, 8), "float32", "")),
        )
        for left in (True, False)
        for lower in (True, False)
        for turned in ("NO_TRANSPOSE", "TRANSPOSE")
    },
    **{
        f"rng.{distribution.lower()}": (
            "(%a: tensor<f32>, %b: tensor<f32>)",
            "%s = stablehlo.constant dense<[5, 40]> : tensor<2xi64> "
            f'%0 = "stablehlo.rng"(%a, %b, %s) {{rng_distribution = #stablehlo<rng_distribution {distribution}>}} '
            ": (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<5x40xf32>",
            (((), "float32", "uniform:-2:-1"), ((), "float32", "uniform:1:2")),
        )
        for distribution in ("UNIFORM", "NORMAL")
    },
    "dot": (
        "(%x: tensor<5x40xf32>, %y: tensor<40x33xf32>)",
        '%0 = "stablehlo.dot"(%x, %y) : (tensor<5x40xf32>, tensor<40x33xf32>) -> tensor<5x33xf32>',
        (((5, 40), "float32", ""), ((40, 33), "float32", "")),
    ),
    "broadcast": (
        "(%x: tensor<5x40xf32>)",
        '%0 = "stablehlo.broadcast"(%x) {broadcast_sizes = array<i64: 3>} : (tensor<5x40xf32>) -> tensor<3x5x40xf32>',
        (((5, 40), "float32", ""),),
    ),
    "get_dimension_size": (
        "(%x: tensor<5x40xf32>)",
        "%0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<5x40xf32>) -> tensor<i32>",
        (((5, 40), "float32", ""),),
    ),
    "batch_norm_inference": (
        f"(%x: {IMAGE}, %s: {LINE}, %o: {LINE}, %m: {LINE}, %v: {LINE})",
        '%0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) {epsilon = 1.0e-05 : f32, feature_index = 3 : i64} '
        f": ({IMAGE}, {LINE}, {LINE}, {LINE}, {LINE}) -> {IMAGE}",
        (
            ((2, 3, 4, 6), "float32", ""),
            *(((6,), "float32", "normal:1:0.1"),) * 3,
            ((6,), "float32", "uniform:0.5:1.5"),
        ),
    ),
    "batch_norm_training": (
        f"(%x: {IMAGE}, %s: {LINE}, %o: {LINE})",
        '%0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {epsilon = 1.0e-05 : f32, feature_index = 3 : i64} '
        f": ({IMAGE}, {LINE}, {LINE}) -> ({IMAGE}, {LINE}, {LINE})",
        (((2, 3, 4, 6), "float32", ""), *(((6,), "float32", "normal:1:0.1"),) * 2),
    ),
    "batch_norm_grad": (
        f"(%x: {IMAGE}, %s: {LINE}, %m: {LINE}, %v: {LINE}, %g: {IMAGE})",
        '%0:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) {epsilon = 1.0e-05 : f32, feature_index = 3 : i64} '
        f": ({IMAGE}, {LINE}, {LINE}, {LINE}, {IMAGE}) -> ({IMAGE}, {LINE}, {LINE})",
        (
            ((2, 3, 4, 6), "float32", ""),
            ((6,), "float32", "normal:1:0.1"),
            ((6,), "float32", "normal:0.1"),
            ((6,), "float32", "uniform:0.5:1.5"),
            ((2, 3, 4, 6), "float32", ""),
        ),
    ),
    "select_and_scatter": (
        "(%x: tensor<8x6xf32>, %g: tensor<4x3xf32>, %z: tensor<f32>)",
        '%0 = "stablehlo.select_and_scatter"(%x, %g, %z) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): '
        "%1 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %1 : tensor<i1> "
        "}, { ^bb0(%a: tensor<f32>, %b: tensor<f32>): %1 = stablehlo.add %a, %b : tensor<f32> "
        "stablehlo.return %1 : tensor<f32> }) "
        "{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>} "
        ": (tensor<8x6xf32>, tensor<4x3xf32>, tensor<f32>) -> tensor<8x6xf32>",
        (((8, 6), "float32", ""), ((4, 3), "float32", ""), ((), "float32", "zeros")),
    ),
}
"""Name -> (arguments of `main`, the op, its operands). The result's types are what follows the last `->`."""


def module(arguments: str, op: str) -> str:
    """The module whose `main` is one op."""
    types = op.rsplit("->", 1)[1].strip()
    listed = types.strip("()")
    count = listed.count("tensor")
    values = ", ".join(f"%0#{i}" for i in range(count)) if count > 1 else "%0"
    return f"func.func @main{arguments} -> ({listed}) {{ {op} func.return {values} : {listed} }}"


def text_call(name: str, text: str) -> Any:
    """A function of arrays that lowers to a call of the text's `main`."""
    import jax
    from jax.core import ShapedArray
    from jax.extend.core import Primitive
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import func
    from jax.interpreters import mlir

    results = text.split("-> (", 1)[1].split(") {", 1)[0]
    shapes = []
    for word in results.split(", "):
        *sizes, kind = word.removeprefix("tensor<").removesuffix(">").split("x")
        dtype = {"f32": "float32", "i32": "int32", "i1": "bool"}[kind]
        shapes.append(ShapedArray(tuple(map(int, sizes)), jax.numpy.dtype(dtype)))
    primitive = Primitive(f"suite_{name}")
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda *_: shapes)

    def lower(context: Any, *operands: Any) -> Any:
        parsed = ir.Module.parse(text, context.module_context.context)
        called = mlir.merge_mlir_modules(context.module_context.module, f"suite_{name}", parsed)
        types = [ir.Type.parse(word, context.module_context.context) for word in results.split(", ")]
        return func.CallOp(types, ir.FlatSymbolRefAttr.get(called), list(operands)).results

    mlir.register_lowering(primitive, lower)
    return primitive.bind


def cases(numpy: Any) -> Iterator[Case]:
    """All cases of this module; `numpy` is `jax.numpy`."""

    def heavy(call: Any, a: Any, *others: Any) -> Any:
        # With a heavy diagonal a matrix is positive definite, and its triangles are well conditioned.
        return call(a @ a.T + 8 * numpy.eye(8, dtype=a.dtype), *others)

    for name, (arguments, op, operands) in TEXTS.items():
        call = text_call(name, module(arguments, op))
        if name.startswith(("cholesky", "triangular_solve")):
            call = partial(heavy, call)
        yield case(name, call, *operands)
