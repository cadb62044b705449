"""The verdict on pieces: faults are red; what is amplified without an error, and what honest fusing changes, is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from opscope.harness.prepare.golden import compile_module
from opscope.harness.record.records import ResultCheck
from opscope.harness.verdict import several_ops
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import Target

HOST = Target("host", None, "exact")
Change = Callable[[np.ndarray], np.ndarray]
"""What a backend makes of a golden."""
CANCELS = """func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %big = stablehlo.constant dense<4096.0> : tensor<64x32xf32>
  %0 = stablehlo.exponential %x : tensor<64x32xf32>
  %1 = stablehlo.add %0, %big : tensor<64x32xf32>
  %2 = stablehlo.subtract %1, %big : tensor<64x32xf32>
  return %2 : tensor<64x32xf32>
}"""
CHOOSES = """func.func @main(%x: tensor<64x32xf32>) -> tensor<64x32xi1> {
  %0 = stablehlo.exponential %x : tensor<64x32xf32>
  %1 = stablehlo.log %0 : tensor<64x32xf32>
  %2 = stablehlo.compare GE, %1, %x : (tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x32xi1>
  return %2 : tensor<64x32xi1>
}"""
MOVES = """func.func @main(%x: tensor<64x32xf32>) -> tensor<32x64xf32> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %1 = stablehlo.reverse %0, dims = [1] : tensor<32x64xf32>
  return %1 : tensor<32x64xf32>
}"""
PRODUCT = """func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x48xf32>, %b: tensor<64x48xf32>) -> tensor<64x48xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x32xf32>, tensor<32x48xf32>) -> tensor<64x48xf32>
  %1 = stablehlo.add %0, %b : tensor<64x48xf32>
  %2 = stablehlo.tanh %1 : tensor<64x48xf32>
  return %2 : tensor<64x48xf32>
}"""


def drawn(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def judged(module: str, inputs: list[np.ndarray], change: Change) -> ResultCheck:
    golden = [np.array(each) for each in compile_module(module, widen=True)(inputs)]
    got = [change(each.copy()) for each in golden]
    operands = Operands("window:x", module.encode(), lambda: inputs)
    (check,) = several_ops.compare(golden, got, {}, HOST, operands)
    return check


def test_what_cancels_is_amplified_and_no_fault() -> None:
    inputs = drawn((64, 32))
    honest = judged(CANCELS, inputs, lambda y: y + np.float32(2**-11))  # one rounding of 4096
    assert honest.passed
    wrong = judged(CANCELS, inputs, lambda y: y + np.float32(1.0))
    assert not wrong.passed
    assert wrong.reason


def test_a_choice_between_values_that_honest_errors_exchange_is_either() -> None:
    inputs = drawn((64, 32))
    assert judged(CHOOSES, inputs, lambda y: ~y).passed
    far = CHOOSES.replace("stablehlo.log %0", "stablehlo.sqrt %0")
    assert not judged(far, inputs, lambda y: ~y).passed
    assert judged(far, inputs, lambda y: y).passed


def test_pieces_that_only_move_values_are_exact() -> None:
    inputs = drawn((64, 32))
    assert judged(MOVES, inputs, lambda y: y).passed
    off = judged(MOVES, inputs, lambda y: np.nextafter(y, np.float32(9)))
    assert not off.passed


@pytest.mark.parametrize(
    "fault",
    [
        lambda y: y * np.float32(1.01),
        lambda y: np.roll(y, 1, axis=0),
        lambda y: np.where(np.arange(48) == 3, np.float32(0), y),
        lambda y: np.concatenate([y[:-1], y[-1:] + np.float32(0.2)]),
    ],
)
def test_faults_of_fused_products_are_red(fault: Change) -> None:
    inputs = drawn((64, 32), (32, 48), (64, 48))
    assert judged(PRODUCT, inputs, lambda y: y * np.float32(1 + 2e-6)).passed
    assert not judged(PRODUCT, inputs, fault).passed


def test_another_count_or_shape_of_results_is_red() -> None:
    inputs = drawn((64, 32))
    assert not judged(MOVES, inputs, lambda y: y.T.copy()).passed
    golden = compile_module(MOVES, widen=True)(inputs)
    operands = Operands("window:x", MOVES.encode(), lambda: inputs)
    checks = several_ops.compare(golden, [], {}, HOST, operands)
    assert [check.passed for check in checks] == [False]
