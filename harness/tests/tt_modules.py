"""Small modules of many element types, and what becomes of each on backend `tt` (jax-tt-plugin 0.1.3)."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One module and the verdict that it has to get."""

    name: str
    text: str
    status: str = "success"
    stage: str | None = None
    """The stage that refuses it."""
    says: str = ""
    """What its error, or what it narrowed, has to contain."""


def _unary(op: str, element: str, result: str = "", shape: str = "4x8x") -> str:
    kind, made = f"tensor<{shape}{element}>", f"tensor<{shape}{result or element}>"
    return _function(f"%a: {kind}", made, f"%0 = stablehlo.{op} %a : ({kind}) -> {made}")


def _binary(op: str, element: str, shape: str = "4x8x") -> str:
    kind = f"tensor<{shape}{element}>"
    return _function(f"%a: {kind}, %b: {kind}", kind, f"%0 = stablehlo.{op} %a, %b : {kind}")


def _reduced(op: str, element: str, start: str, rows: int = 4) -> str:
    dimension = 1 if rows else 0
    kind, made = f"tensor<{rows}x8x{element}>", f"tensor<{rows or 8}x{element}>"
    return _function(
        f"%a: {kind}",
        made,
        f"%c = stablehlo.constant dense<{start}> : tensor<{element}>\n  %0 = stablehlo.reduce(%a init: %c) applies "
        f"stablehlo.{op} across dimensions = [{dimension}] : ({kind}, tensor<{element}>) -> {made}",
    )


def _product(element: str) -> str:
    left, right, made = f"tensor<4x8x{element}>", f"tensor<8x6x{element}>", f"tensor<4x6x{element}>"
    return _function(
        f"%a: {left}, %b: {right}",
        made,
        f"%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({left}, {right}) -> {made}",
    )


def _function(arguments: str, result: str, body: str) -> str:
    return f"func.func @main({arguments}) -> {result} {{\n  {body}\n  return %0 : {result}\n}}\n"


_UNKNOWN = "stablehlo.custom_call @nobody_knows(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>"
_TO_NOWHERE = "stablehlo.dynamic_reshape %a, %s : (tensor<4x8xf32>, tensor<1xi32>) -> tensor<?xf32>"
_PAIRS = "tensor<4x8xf32>, tensor<4x8xi32>"
_SORT = f"""func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x8xi32>) -> ({_PAIRS}) {{
  %0:2 = "stablehlo.sort"(%a, %b) <{{dimension = 1 : i64, is_stable = true}}> ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %u: tensor<i32>, %v: tensor<i32>):
    %1 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }}) : ({_PAIRS}) -> ({_PAIRS})
  return %0#0, %0#1 : {_PAIRS}
}}
"""
UNSPLITTABLE = "unsplittable"
"""What has no module of its own, and so no record: the manifest says why."""
TO_TTIR, TO_TTNN = "stablehlo-to-ttir", "ttir-to-ttnn"
ROWS = (
    Row("bf16_add", _binary("add", "bf16")),
    Row("bf16_exponential", _unary("exponential", "bf16")),
    Row("bf16_dot", _product("bf16")),
    Row("bf16_reduce_add", _reduced("add", "bf16", "0.0")),
    Row("bf16_to_f32", _unary("convert", "bf16", "f32")),
    Row("bf16_to_i32", _unary("convert", "bf16", "i32")),
    Row("f16_multiply", _binary("multiply", "f16")),
    Row("f16_tanh", _unary("tanh", "f16")),
    Row("f64_add", _binary("add", "f64"), says="f64 -> f32"),
    Row("f64_dot", _product("f64"), says="f64 -> f32"),
    Row("f64_exponential", _unary("exponential", "f64"), says="f64 -> f32"),
    Row("f64_to_f32", _unary("convert", "f64", "f32"), says="f64 -> f32"),
    Row("i64_add", _binary("add", "i64"), says="i64 -> si32"),
    Row("i64_multiply", _binary("multiply", "i64"), says="i64 -> si32"),
    Row("i64_reduce_max", _reduced("maximum", "i64", "-9223372036854775808"), says="i64 -> si32"),
    Row("i64_to_f32", _unary("convert", "i64", "f32"), says="i64 -> si32"),
    Row("ui64_add", _binary("add", "ui64")),
    Row("ui64_divide", _binary("divide", "ui64")),
    Row("ui64_to_f32", _unary("convert", "ui64", "f32")),
    Row("i32_divide", _binary("divide", "i32")),
    Row("ui32_remainder", _binary("remainder", "ui32")),
    Row("i16_add", _binary("add", "i16")),
    Row("ui16_maximum", _binary("maximum", "ui16")),
    Row("i8_multiply", _binary("multiply", "i8")),
    Row("ui8_add", _binary("add", "ui8")),
    Row("i1_and", _binary("and", "i1")),
    Row("i1_not", _unary("not", "i1")),
    Row("i4_add", _binary("add", "i4"), "compile_failed", TO_TTIR, "TT_THROW: Unsupported signed integer type"),
    Row("ui4_to_i32", _unary("convert", "ui4", "i32"), "compile_failed", TO_TTNN, "Unsupported type"),
    Row("f8E4M3FN_to_f32", _unary("convert", "f8E4M3FN", "f32"), "compile_failed", TO_TTNN, "Unsupported type"),
    Row("f8E5M2_add", _binary("add", "f8E5M2"), "compile_failed", TO_TTIR, "TT_THROW: Unsupported float type"),
    Row("complex_add", _binary("add", "complex<f32>")),
    Row("complex_abs", _unary("abs", "complex<f32>", "f32")),
    Row("zero_size_add", _binary("add", "f32", "0x8x")),
    Row("zero_size_reduce", _reduced("add", "f32", "0.0", rows=0)),
    Row("scalar_add", _binary("add", "f32", "")),
    Row(
        "constant",
        _function("", "tensor<2x2xf32>", "%0 = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>"),
    ),
    Row("two_results", _SORT),
    Row(
        "custom_call",
        _function("%a: tensor<4x8xf32>", "tensor<4x8xf32>", f"%0 = {_UNKNOWN}"),
        "compile_failed",
        TO_TTNN,
        "failed to legalize operation 'stablehlo.custom_call'",
    ),
    Row("dynamic_add", _binary("add", "f32", "?x8x"), UNSPLITTABLE, None, "--shape arg0=1x8"),
    Row(
        "dynamic_reshape",
        _function("%a: tensor<4x8xf32>, %s: tensor<1xi32>", "tensor<?xf32>", f"%0 = {_TO_NOWHERE}"),
        UNSPLITTABLE,
        None,
        "has a dynamic shape in dim 0",
    ),
)
"""Dynamic shapes are refused before any backend: no op of an open shape has a module of its own."""
