"""Float32 that a board stores in 16 bits: what all elements share is off alike for all, and a scale error is none."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.backends import registry
from opscope.harness.prepare.split import split_module
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands, as_stored

BF16 = ml_dtypes.bfloat16
TARGET = registry.load("reference").target(ResultOptions(arch="n150", data_format="Float16_b"))
SHAPE = (128, 128)
TYPE = "tensor<128x128xf32>"
TEXTS = {
    "multiply": f"func.func @main(%a: {TYPE}, %b: {TYPE}) -> {TYPE} {{ %0 = stablehlo.multiply %a, %b : {TYPE} "
    f"return %0 : {TYPE} }}",
    "dot": f"func.func @main(%a: {TYPE}, %b: {TYPE}) -> {TYPE} {{ %0 = stablehlo.dot_general %a, %b, "
    f"contracting_dims = [1] x [0] : ({TYPE}, {TYPE}) -> {TYPE} return %0 : {TYPE} }}",
    "constant": f"func.func @main(%a: {TYPE}) -> {TYPE} {{ %c = stablehlo.constant dense<1.0038281679153442> : {TYPE} "
    f"%0 = stablehlo.multiply %a, %c : {TYPE} return %0 : {TYPE} }}",
}
SHARED = np.float32(1.0038281679153442)
"""Almost in the middle of two numbers of bfloat16: stored, it is 0.38 % too small."""


def away(x: np.ndarray) -> np.ndarray:
    """Float64 as the packer rounds it to bfloat16."""
    bits = x.astype(np.float32).view(np.uint32) + np.uint32(0x8000)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def judged(name: str, operands: list[np.ndarray], factor: float = 1.0):
    """The verdict on what a board computes, times a factor."""
    (op,) = split_module(TEXTS[name], "case").ops.values()
    stored = operands[: len(op.inputs)]
    narrow = [x.astype(BF16).astype(np.float64) for x in operands]
    combine = np.matmul if name == "dot" else np.multiply
    golden = combine(*(x.astype(np.float64) for x in operands)).astype(np.float32)
    got = away(combine(*narrow) * factor)
    known = Operands(op.op_name, op.bytecode, lambda: stored)
    return compare(
        [golden], [got], op.op_name, TARGET, inputs=op.inputs, outputs=op.outputs, params=op.op_params, operands=known
    )[0]


@pytest.mark.parametrize("name", TEXTS)
def test_a_value_that_all_elements_share_is_stored_alike_for_all(name: str) -> None:
    x = np.random.default_rng(1).uniform(0.1, 2, SHAPE).astype(np.float32)
    check = judged(name, [x, np.full(SHAPE, SHARED)])
    assert check.passed, check.reason
    for factor in (1.01, 0.985):
        assert not judged(name, [x, np.full(SHAPE, SHARED)], factor).passed


@pytest.mark.parametrize("name", ["multiply", "dot"])
def test_three_in_a_thousand_too_much_are_no_ties(name: str) -> None:
    rng = np.random.default_rng(2)
    operands = [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(2)]
    assert judged(name, operands).passed
    check = judged(name, operands, 1.003)
    assert not check.passed
    assert name == "multiply" or check.question == "systematic"
    ties = [np.full(SHAPE, 3.0, np.float32), (rng.integers(128, 256, SHAPE) / 128).astype(np.float32)]
    assert name == "dot" or judged(name, ties).passed


def test_operands_as_they_are_stored() -> None:
    x = np.array([[1.00390625, 1.01171875, -1.005, 3e38, 0.0]], np.float32)
    assert as_stored(x, "Float16_b").tolist() == x.astype(BF16).astype(np.float32).tolist()
    row = np.array([[1.0, 1 + 2**-7, -1 - 3 * 2**-7, 2**-7, 1.999, 0, np.nan]], np.float32)
    assert as_stored(row, "Bfp8")[0, :6].tolist() == [1.0, 1 + 2**-6, -1 - 2**-5, 2**-6, 2 - 2**-6, 0]
