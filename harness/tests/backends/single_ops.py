"""Modules of one op, with values for them, for tests of who says an op in words of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.harness.prepare.mlir import variant
from opscope.harness.record.element_types import numpy_dtype

CONV = """"stablehlo.convolution"(%a0, %a1) {
  dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
  window_strides = array<i64: 2, 1>, padding = dense<[[1, 0], [1, 1]]> : tensor<2x2xi64>, feature_group_count = 2 : i64,
  batch_group_count = 1 : i64, rhs_dilation = array<i64: 1, 2>} ::"""
REDUCE = """stablehlo.reduce(%a0 init: %c) applies stablehlo.{kind} across dimensions = [0, 2] ::"""
OPS = {
    "add": ("stablehlo.add %a0, %a1 :", "4x6xf32 4x6xf32", "4x6xf32"),
    "a constant": ("stablehlo.subtract %c, %a0 :", "f32", "f32"),
    "one operand twice": ("stablehlo.multiply %a0, %a0 :", "5xf32", "5xf32"),
    "whole numbers": ("stablehlo.divide %a0, %a1 :", "6xi32 6xi32", "6xi32"),
    "remainder": ("stablehlo.remainder %a0, %a1 :", "6xf32 6xf32", "6xf32"),
    "not equal": ("stablehlo.compare NE, %a0, %a1 ::", "6xi32 6xi32", "6xi1"),
    "at least": ("stablehlo.compare GE, %a0, %a1, FLOAT ::", "6xf32 6xf32", "6xi1"),
    "select": ("stablehlo.select %a0, %a1, %a2 ::", "6xi1 6xf32 6xf32", "6xf32"),
    "clamp": ("stablehlo.clamp %a0, %a1, %a2 ::", "f32 6xf32 f32", "6xf32"),
    "convert": ("stablehlo.convert %a0 ::", "6xi32", "6xf16"),
    "bits": ("stablehlo.xor %a0, %a1 :", "6xi32 6xi32", "6xi32"),
    "booleans": ("stablehlo.and %a0, %a1 :", "6xi1 6xi1", "6xi1"),
    "reshape": ("stablehlo.reshape %a0 ::", "4x6xf32", "3x8xf32"),
    "transpose": ("stablehlo.transpose %a0, dims = [2, 0, 1] ::", "2x3x4xf32", "4x2x3xf32"),
    "broadcast": ("stablehlo.broadcast_in_dim %a0, dims = [2, 0] ::", "1x4xf32", "4x3x5xf32"),
    "concatenate": ("stablehlo.concatenate %a0, %a1, dim = 1 ::", "2x3xf32 2x5xf32", "2x8xf32"),
    "slice": ("stablehlo.slice %a0 [1:4:2, 0:5] ::", "4x6xf32", "2x5xf32"),
    "reverse": ("stablehlo.reverse %a0, dims = [0, 2] :", "2x3x4xf32", "2x3x4xf32"),
    "pad": ("stablehlo.pad %a0, %a1, low = [1, 0], high = [0, 2], interior = [0, 0] ::", "2x3xf32 f32", "3x5xf32"),
    "product": ("stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] ::", "4x5xf32 5x6xf32", "4x6xf32"),
    "batches": (
        "stablehlo.dot_general %a0, %a1, batching_dims = [1] x [0], contracting_dims = [2, 0] x [2, 1] ::",
        "2x3x4xf32 3x2x4x5xf32",
        "3x5xf32",
    ),
    "vector and matrices": (
        "stablehlo.dot_general %a0, %a1, contracting_dims = [0] x [1] ::",
        "4xf32 2x4x3xf32",
        "2x3xf32",
    ),
    "sum": (REDUCE.format(kind="add"), "2x3x4xf32", "3xf32"),
    "convolution": (CONV, "1x5x6x4xf32 2x2x2x6xf32", "1x3x6x6xf32"),
}

GATHER = (
    """"stablehlo.gather"(%a0, %a1) {{dimension_numbers = #stablehlo.gather<{0}>, slice_sizes = array<i64: {1}>}} ::"""
)
MORE = {
    "a dilated image": (
        CONV.replace(
            "batch_group_count",
            "lhs_dilation = array<i64: 2, 1>, window_reversal = array<i1: true, false>, batch_group_count",
        ),
        "1x5x6x4xf32 2x2x2x6xf32",
        "1x5x6x6xf32",
    ),
    "sum from a value": (REDUCE.format(kind="add").replace("%c", "%a1"), "2x3x4xf32 f32", "3xf32"),
    "any": (REDUCE.format(kind="or").replace("%c", "%a1"), "2x3x4xi1 i1", "3xi1"),
    "windows": (
        """"stablehlo.reduce_window"(%a0, %a1) ({{ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
  %s = stablehlo.maximum %x, %y : tensor<f32>
  stablehlo.return %s : tensor<f32> }}) {{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 1, 2>,
  window_dilations = array<i64: 2, 1>, base_dilations = array<i64: 1, 2>,
  padding = dense<[[1, 0], [0, 2]]> : tensor<2x2xi64>}} ::""".format(),
        "4x5xf32 f32",
        "3x5xf32",
    ),
    "between and less": (
        "stablehlo.pad %a0, %a1, low = [-1, 2], high = [1, -1], interior = [1, 2] ::",
        "3x4xf32 f32",
        "5x11xf32",
    ),
    "narrower bits": ("stablehlo.bitcast_convert %a0 ::", "6xf32", "6x2xi16"),
    "wider bits": ("stablehlo.bitcast_convert %a0 ::", "6x2xi16", "6xf32"),
    "counting": ("stablehlo.iota dim = 1 :", "", "2x5xi32"),
    "bf16": ("stablehlo.divide %a0, %a1 :", "6xbf16 6xbf16", "6xbf16"),
    "a sign": ("stablehlo.sign %a0 :", "6xf32", "6xf32"),
    "cut at a place": ("stablehlo.dynamic_slice %a0, %a1, %a2, sizes = [2, 3] ::", "4x6xf32 i32 i32", "2x3xf32"),
    "put at a place": ("stablehlo.dynamic_update_slice %a0, %a1, %a2, %a3 ::", "4x6xf32 2x3xf32 i32 i32", "4x6xf32"),
    "rows of a table": (
        GATHER.format(
            "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2", "1, 4"
        ),
        "7x4xf32 3x2x1xi32",
        "3x4x2xf32",
    ),
    "pieces of each": (
        GATHER.format(
            "offset_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [1], start_index_map = [1],"
            " index_vector_dim = 2",
            "1, 2",
        ),
        "3x7xf32 4x3x1xi32",
        "4x2x3xf32",
    ),
}
"""What PyTorch says, and ONNX not, or otherwise."""


def module(op: str, operands: str, result: str, constant: str = "0.0") -> bytes:
    """An op's module. Where its text ends with `:`, its types are that of its result, with `::` those of all."""
    types = [f"tensor<{kind}>" for kind in operands.split()]
    arguments = ", ".join(f"%a{number}: {kind}" for number, kind in enumerate(types))
    scalar = f"tensor<{operands.rpartition('x')[2]}>"
    signature = f"({', '.join([*types, *[scalar] * ('init: %c' in op)])}) -> tensor<{result}>"
    text = f"{op[:-1]} {signature}" if op.endswith("::") else f"{op} tensor<{result}>"
    made = f"  %c = stablehlo.constant dense<{constant}> : {scalar}\n" if "%c" in op else ""
    return (
        f"func.func @main({arguments}) -> tensor<{result}> {{\n{made}  %r = {text}\n  return %r : tensor<{result}>\n}}"
    ).encode()


def values(module: bytes, seed: int = 3) -> list[Any]:
    """Values for the arguments: small numbers, none of them 0."""
    form, generator = variant.read(module), np.random.default_rng(seed)
    places = {argument: place for place, argument in enumerate(form.arguments) if argument >= 0}
    arrays = []
    for _, place in sorted(places.items()):
        dtype = numpy_dtype(form.types[place])
        drawn = generator.integers(1, 9, form.operands[place]) * generator.choice([-1, 1], form.operands[place])
        arrays.append((drawn > 0) if dtype.kind == "b" else (drawn / (1 if dtype.kind in "iu" else 4)).astype(dtype))
    return arrays
