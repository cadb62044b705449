"""Quantisation written as plain arithmetic becomes types, and computes what it did, by XLA."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from opscope.base.quantised.dequantised import as_integers, dequantise
from opscope.base.quantised.pairs import with_quantised_types
from opscope.base.quantised.types import QuantisedType, quantised_type

CONVOLUTION = (
    "dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} "
    "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
)
X, K = "tensor<1x2x6x6xf32>", "tensor<3x2x3x3xf32>"
Y = "tensor<1x3x6x6xf32>"
SCALES = [0.01, 0.02, 0.03]
"""Of the weights; the activations' is 0.05, and a bias is a whole number of products of both."""
WEIGHTS = np.random.default_rng(0).integers(-127, 128, (3, 2, 3, 3)).astype(np.float32)
BIAS = np.array([100, -200, 30]) * 0.05 * np.array(SCALES)


def network(zero: int = -5, bias: np.ndarray = BIAS, relu: bool = False) -> str:
    """A quantised convolution in QDQ form, as torch-mlir writes the ONNX graph."""
    floor = f"%sum0 = stablehlo.maximum %sum1, %nil : {Y}" if relu else ""
    return f"""
func.func @main(%x: {X}) -> {Y} {{
  %sx = stablehlo.constant dense<0.05> : {X}
  %zx = stablehlo.constant dense<{zero}.0> : {X}
  %lo = stablehlo.constant dense<-128.0> : tensor<f32>
  %hi = stablehlo.constant dense<127.0> : tensor<f32>
  %0 = stablehlo.divide %x, %sx : {X}
  %1 = stablehlo.round_nearest_even %0 : {X}
  %2 = stablehlo.add %1, %zx : {X}
  %3 = stablehlo.clamp %lo, %2, %hi : (tensor<f32>, {X}, tensor<f32>) -> {X}
  %4 = stablehlo.convert %3 : ({X}) -> tensor<1x2x6x6xi8>
  %5 = stablehlo.convert %4 : (tensor<1x2x6x6xi8>) -> {X}
  %6 = stablehlo.subtract %5, %zx : {X}
  %7 = stablehlo.multiply %6, %sx : {X}
  %k = stablehlo.constant dense<{WEIGHTS.tolist()}> : {K}
  %sk = stablehlo.constant dense<{SCALES}> : tensor<3xf32>
  %bk = stablehlo.broadcast_in_dim %sk, dims = [0] : (tensor<3xf32>) -> {K}
  %8 = stablehlo.multiply %k, %bk : {K}
  %9 = stablehlo.convolution(%7, %8) {CONVOLUTION} : ({X}, {K}) -> {Y}
  %b = stablehlo.constant dense<{bias.tolist()}> : tensor<3xf32>
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xf32>) -> {Y}
  %nil = stablehlo.constant dense<0.0> : {Y}
  %sum{1 if relu else 0} = stablehlo.add %9, %bb : {Y}
  {floor}
  %sy = stablehlo.constant dense<0.25> : {Y}
  %zy = stablehlo.constant dense<4.0> : {Y}
  %10 = stablehlo.divide %sum0, %sy : {Y}
  %11 = stablehlo.round_nearest_even %10 : {Y}
  %12 = stablehlo.add %11, %zy : {Y}
  %13 = stablehlo.clamp %lo, %12, %hi : (tensor<f32>, {Y}, tensor<f32>) -> {Y}
  %14 = stablehlo.convert %13 : ({Y}) -> tensor<1x3x6x6xi8>
  %15 = stablehlo.convert %14 : (tensor<1x3x6x6xi8>) -> {Y}
  %16 = stablehlo.subtract %15, %zy : {Y}
  %17 = stablehlo.multiply %16, %sy : {Y}
  return %17 : {Y}
}}"""


def rewritten(source: str) -> tuple[str, str]:
    """The module in quantised types, and the same on integers, as text."""
    context = ir.Context()
    stablehlo.register_dialect(context)
    with context, ir.Location.unknown():
        empty = stablehlo.serialize_portable_artifact(ir.Module.parse("module {}"), stablehlo.get_minimum_version())
        stablehlo.deserialize_portable_artifact(context, empty)
        module = ir.Module.parse(with_quantised_types(source.encode()))
        text = str(module)
        dequantise(module)
        as_integers(module)
        return text, str(module)


def xla(source: str, x: np.ndarray) -> np.ndarray:
    from jaxlib import xla_client

    device = jax.devices("cpu")[0]
    program = device.client.compile_and_load(source, (device,), xla_client.CompileOptions())
    return np.asarray(
        program.execute_sharded([jax.device_put(x, device)]).disassemble_into_single_device_arrays()[0][0]
    )


# quick: [True], which is that and a relu
@pytest.mark.parametrize("relu", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_convolution_between_pairs_is_one_of_quantised_tensors(relu: bool):
    source = network(relu=relu)
    text, integers = rewritten(source)
    (convolution,) = re.findall(r"stablehlo.convolution\(.*", text)
    assert convolution.count("!quant.uniform<i8") == 2
    assert "->" in convolution.rpartition(" : ")[2]
    assert "!quant.uniform<i32:f32:1" in convolution
    x = np.random.default_rng(1).normal(size=(1, 2, 6, 6)).astype(np.float32)
    got, want = xla(integers, x), xla(source, x)
    # Steps of 0.25; a sum of floats may round a half the other way.
    assert np.mean(got != want) < 0.02
    assert np.abs(got - want).max() <= 0.25
    assert len(np.unique(got)) > 8


def test_a_bias_that_is_no_integer_stays_a_float():
    text, integers = rewritten(network(bias=BIAS + 0.0004))
    assert "!quant.uniform<i32" not in text
    x = np.random.default_rng(2).normal(size=(1, 2, 6, 6)).astype(np.float32)
    assert np.abs(xla(integers, x) - xla(network(bias=BIAS + 0.0004), x)).max() <= 0.25


def test_a_module_without_pairs_is_the_same():
    source = b"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"
    assert with_quantised_types(source) is source


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("!quant.uniform<i8:f32, 0.5>", QuantisedType("i8", "f32", -128, 127, (0.5,), (0,))),
        ("!quant.uniform<u8:f32, 5.0e-01:3>", QuantisedType("ui8", "f32", 0, 255, (0.5,), (3,))),
        (
            "!quant.uniform<i8<-127:127>:bf16:1, {0.5:2,1.25}>",
            QuantisedType("i8", "bf16", -127, 127, (0.5, 1.25), (2, 0), 1),
        ),
        ("!quant.uniform<i4:f32, 0.5>", QuantisedType("i4", "f32", -8, 7, (0.5,), (0,))),
        ("i8", None),
    ],
)
def test_types_are_read(text: str, kind: QuantisedType | None):
    assert quantised_type(text) == kind
