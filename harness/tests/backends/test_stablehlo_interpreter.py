"""StableHLO's interpreter as a backend: small ops as the specification has them, the others refused in one line."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.backends import registry
from opscope.harness.backends.base import Declined, Job, StageError
from opscope.harness.prepare.mlir import interpreter as mlir_interpreter
from opscope.harness.prepare.mlir import load
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage


@pytest.fixture(scope="module")
def interpreter():
    return registry.load("stablehlo-interpreter")


def run(backend, module, *inputs):
    job = Job("op", module.encode(), list(inputs), ResultOptions())
    for stage in backend.stages:
        backend.climb(stage, job)
    return job.outputs


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bf16", np.array([1.5, -2, np.inf, -0.0]).astype(ml_dtypes.bfloat16)),
        ("i1", np.array([True, False, True, True])),
        ("i1", np.array([True, True, True, True])),
        ("i4", np.array([-8, 7, 0, -1]).astype(ml_dtypes.int4)),
        ("ui64", np.array([2**64 - 1, 0, 1, 2], np.uint64)),
        ("f8E4M3FN", np.array([1.5, -2, 448, 0]).astype(ml_dtypes.float8_e4m3fn)),
        ("f32", np.array([7.5, 7.5, 7.5, 7.5], np.float32)),
        ("f64", np.array([7.5, -0.1, 1e300, -0.0])),
    ],
)
def test_values_of_every_type_go_in_and_come_back_bit_by_bit(interpreter, kind, values):
    module = f"""func.func @main(%a: tensor<4x{kind}>) -> tensor<4x{kind}> {{
      %0 = stablehlo.reverse %a, dims = [0] : tensor<4x{kind}> return %0 : tensor<4x{kind}> }}"""
    (out,) = run(interpreter, module, values)
    assert out.dtype == values.dtype
    assert out.tobytes() == values[::-1].tobytes()


def test_chlo_is_written_in_stablehlo_first(interpreter):
    values = np.linspace(-2, 2, 9, dtype=np.float32)
    module = """func.func @main(%a: tensor<9xf32>) -> tensor<9xf32> {
      %0 = chlo.erf %a : tensor<9xf32> -> tensor<9xf32> return %0 : tensor<9xf32> }"""
    import math

    np.testing.assert_allclose(run(interpreter, module, values)[0], [math.erf(x) for x in values], atol=1e-6)


def test_a_reductions_start_counts_once(interpreter):
    """As the specification says; XLA may take a start that is not neutral several times."""
    module = """func.func @main(%a: tensor<1000xf32>, %s: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.reduce(%a init: %s) applies stablehlo.add across dimensions = [0]
        : (tensor<1000xf32>, tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32> }"""
    assert run(interpreter, module, np.ones(1000, np.float32), np.array(0.5, np.float32))[0] == 1000.5


def test_ops_that_would_end_the_process_are_refused_before(interpreter):
    module = """func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %0 = stablehlo.cholesky %a, lower = true : tensor<4x4xf32> return %0 : tensor<4x4xf32> }"""
    with pytest.raises(StageError, match=r"the interpreter has no stablehlo\.cholesky"):
        run(interpreter, module, np.eye(4, dtype=np.float32))
    module = """func.func @main(%a: tensor<4xcomplex<f32>>) -> tensor<4xf32> {
      %0 = stablehlo.real %a : (tensor<4xcomplex<f32>>) -> tensor<4xf32> return %0 : tensor<4xf32> }"""
    with pytest.raises(StageError, match=r"stablehlo\.real of .*complex"):
        run(interpreter, module, np.ones(4, np.complex64))


def test_deprecated_ops_are_written_anew_and_others_left_alone(interpreter):
    dot = """func.func @main(%a: tensor<2x4xf32>, %b: tensor<4x3xf32>) -> tensor<2x3xf32> {
      %0 = stablehlo.dot %a, %b : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32> }"""
    left, right = np.arange(8, dtype=np.float32).reshape(2, 4), np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(run(interpreter, dot, left, right)[0], left @ right)
    mapped = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.map"(%a) ({ ^bb0(%x: tensor<f32>):
        %s = stablehlo.negate %x : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) {dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }"""
    values = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(run(interpreter, mapped, values)[0], -values)


@pytest.mark.parametrize("side", [128, 2048])
def test_an_op_that_would_take_too_long_is_declined(interpreter, side):
    kind = f"tensor<{side}x{side}xf32>"
    module = f"""func.func @main(%a: {kind}, %b: {kind}) -> {kind} {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({kind}, {kind}) -> {kind}
      return %0 : {kind} }}"""
    with pytest.raises(Declined, match="elements to compute one by one, at most 1,048,576"):
        interpreter.climb(Stage.LEGALIZE, Job("op", module.encode(), [], ResultOptions()))


@pytest.mark.parametrize(
    ("body", "elements"),
    [
        # Operands and results, and as many terms for each element of the result.
        ("%0 = stablehlo.add %a, %a : tensor<4x6xf32>", 3 * 24),
        (
            "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x5xf32>) -> "
            "tensor<4x5xf32>",
            24 + 30 + 20 + 20 * 6,
        ),
        (
            "%0 = stablehlo.convolution(%c, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} "
            "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x8x2xf32>, tensor<3x2x7xf32>) -> "
            "tensor<1x6x7xf32>",
            16 + 42 + 42 + 42 * 6,
        ),
        (
            '%0 = "stablehlo.reduce_window"(%a, %s) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): '
            "stablehlo.return %x : tensor<f32> }) {window_dimensions = array<i64: 2, 3>} : "
            "(tensor<4x6xf32>, tensor<f32>) -> tensor<3x4xf32>",
            24 + 1 + 12 + 12 * 6 + 1,
        ),
    ],
    ids=["add", "dot_general", "convolution", "reduce_window"],
)
def test_work_counts_each_term_of_each_element(body, elements):
    arguments = (
        "%a: tensor<4x6xf32>, %b: tensor<6x5xf32>, %c: tensor<1x8x2xf32>, %k: tensor<3x2x7xf32>, %s: tensor<f32>"
    )
    module = load(f"func.func @main({arguments}) {{ {body} return }}", "test")
    assert mlir_interpreter.work(module) == elements
