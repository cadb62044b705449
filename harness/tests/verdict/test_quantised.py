"""Ops of quantised tensors: split, their goldens by the specification's formulas, and what a verdict excuses."""

from __future__ import annotations

import numpy as np
import pytest

from opscope import judge
from opscope.harness.backends.base import Target
from opscope.harness.prepare import golden
from opscope.harness.prepare.split import split_module
from opscope.harness.record.records import QUANTISED, ResultCheck
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands

DEVICE = Target("sim-n150", None, "HiFi4", "Tf32")
X, W = "!quant.uniform<i8:f32, 0.0235:-5>", "!quant.uniform<i8<-127:127>:f32:1, {0.01,0.02,0.03}>"
Y = "!quant.uniform<i8:f32, 0.0831:3>"
WEIGHTS = np.array([[5 * i - 7 * j for j in range(3)] for i in range(8)], np.int8)
MODEL = f"""
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x3xf32> {{
  %w = "stablehlo.constant"() {{value = dense<{WEIGHTS.tolist()}> : tensor<8x3xi8>}} : () -> tensor<8x3x{W}>
  %0 = stablehlo.uniform_quantize %x : (tensor<4x8xf32>) -> tensor<4x8x{X}>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
    : (tensor<4x8x{X}>, tensor<8x3x{W}>) -> tensor<4x3x{Y}>
  %2 = stablehlo.add %1, %1 : tensor<4x3x{Y}>
  %3 = stablehlo.uniform_dequantize %2 : (tensor<4x3x{Y}>) -> tensor<4x3xf32>
  return %3 : tensor<4x3xf32>
}}
"""
INPUT = np.random.default_rng(0).integers(-128, 128, (4, 8)).astype(np.int8)


def op(name: str):
    return next(each for each in split_module(MODEL).ops.values() if each.op_name == f"stablehlo.{name}")


def exact() -> np.ndarray:
    """The product in steps of the result, not rounded."""
    value = (INPUT.astype(np.float64) + 5) * 0.0235 @ (WEIGHTS * np.array([0.01, 0.02, 0.03]))
    return np.clip(value / 0.0831 + 3, -128, 127)


def verdict(got: np.ndarray) -> ResultCheck:
    dot = op("dot_general")
    operands = Operands(dot.op_name, dot.bytecode, lambda: [INPUT, WEIGHTS])
    return compare(
        [np.rint(exact()).astype(np.int8)],
        [got],
        dot.op_name,
        DEVICE,
        inputs=dot.inputs,
        outputs=dot.outputs,
        params=dot.op_params,
        operands=operands,
    )[0]


def test_quantised_ops_are_split_and_take_their_integers():
    ops = {each.op_name: each for each in split_module(MODEL).ops.values()}
    assert not any(each.unsplittable for each in ops.values())
    dot = ops["stablehlo.dot_general"]
    assert [desc.data_type for desc in (*dot.inputs, *dot.outputs)] == ["i8", "i8", "i8"]
    assert dot.op_params[QUANTISED].count("!quant.uniform<i8") == 3


def test_another_scale_is_another_op():
    other = split_module(MODEL.replace("0.0831", "0.0832"))
    assert op("dot_general").op_id not in other.ops


def test_a_golden_is_rounded_once_and_clamped():
    (got,) = golden.compile_module(op("dot_general").bytecode, widen=True)([INPUT, WEIGHTS])
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got, np.rint(exact()))


def test_a_step_aside_is_wrong_unless_the_value_lies_at_a_half():
    right = np.rint(exact()).astype(np.int8)
    assert verdict(right).passed
    for wrong in (right + np.int8(1), np.floor(exact()).astype(np.int8)):
        result = verdict(wrong)
        assert not result.passed
        assert "values are wrong: " in result.reason


def test_ties_may_round_either_way():
    """0.5 is half a step of a scale of 1: even is right, and so is odd, but not two steps aside."""
    kind = "!quant.uniform<i8:f32, 2.0>"
    source = f"""func.func @main(%x: tensor<3xf32>) -> tensor<3x{kind}> {{
      %0 = stablehlo.uniform_quantize %x : (tensor<3xf32>) -> tensor<3x{kind}>
      return %0 : tensor<3x{kind}>
    }}"""
    (quantise,) = split_module(source).ops.values()
    x = np.array([1.0, 3.0, 4.0], np.float32)
    for got, passed in (([0, 2, 2], True), ([1, 1, 2], True), ([0, 2, 3], False), ([-1, 2, 2], False)):
        (result,) = compare(
            [np.array([0, 2, 2], np.int8)],
            [np.array(got, np.int8)],
            quantise.op_name,
            DEVICE,
            inputs=quantise.inputs,
            outputs=quantise.outputs,
            params=quantise.op_params,
            operands=Operands(quantise.op_name, quantise.bytecode, lambda: [x]),
        )
        assert result.passed == passed, got
        assert ("half" in result.flags) == (got == [1, 1, 2])


@pytest.mark.parametrize("name", ["tanh", "maximum"])
def test_functions_are_computed_on_what_the_integers_stand_for(name: str):
    operands = "%x" if name == "tanh" else "%x, %x"
    source = f"""func.func @main(%x: tensor<4x8x{X}>) -> tensor<4x8x{X}> {{
      %0 = stablehlo.{name} {operands} : tensor<4x8x{X}>
      return %0 : tensor<4x8x{X}>
    }}"""
    (got,) = golden.compile_module(source, widen=True)([INPUT])
    value = (INPUT.astype(np.float64) + 5) * 0.0235
    value = np.tanh(value) if name == "tanh" else value
    np.testing.assert_array_equal(got, np.clip(np.rint(value / 0.0235 - 5), -128, 127))


@pytest.mark.parametrize("target", ["ieee", "card"])
def test_a_scale_or_a_zero_point_a_little_aside_cutting_and_wrapping_are_wrong(target: str):
    x = (np.random.default_rng(0).standard_normal((32, 16)) * 1.5).astype(np.float32)
    source = f"""func.func @main(%x: tensor<32x16xf32>) -> tensor<32x16x{X}> {{
      %0 = stablehlo.uniform_quantize %x : (tensor<32x16xf32>) -> tensor<32x16x{X}>
      return %0 : tensor<32x16x{X}>
    }}"""

    def stored(scale: float = 0.0235, zero: int = -5, how=np.rint, ends=(-128, 127)) -> np.ndarray:
        return np.clip(how(x / np.float64(scale) + zero), *ends).astype(np.int8)

    assert judge(source, x, stored(), target=target)
    assert judge(source, x, np.clip(np.rint(x * np.float32(1 / 0.0235)) - 5, -128, 127).astype(np.int8), target=target)
    wrapped = np.rint(x / 0.0235 - 5).astype(np.int64).astype(np.int8)
    lies = [stored(0.0235 * (1 + 1 / 128)), stored(zero=-4), stored(how=np.floor), stored(ends=(-120, 120)), wrapped]
    for lie in lies:
        assert judge(source, x, lie, target=target).answer == "wrong"
    back = source.replace("uniform_quantize", "uniform_dequantize").replace("xf32", "x?").replace(f"x{X}", "xf32")
    back, y = back.replace("x?", f"x{X}"), stored()
    right = ((y.astype(np.float64) + 5) * 0.0235).astype(np.float32)
    assert judge(back, y, right, target=target)
    for lie in (right * np.float32(1 + 1 / 128), right + np.float32(0.0235)):
        assert judge(back, y, lie, target=target).answer == "wrong"
