"""Rows of the table for convolutions, pools, norms of batches and loops: results on the simulator against XLA's."""

from __future__ import annotations

import numpy as np
import pytest
from jax import lax
from numpy.testing import assert_array_equal

from opscope.compiler.errors import StageFailure
from opscope.compiler.tt_mlir.tests.ttnn_text import CONFIG, function, kind, module, run_op, run_text

RANDOM = np.random.default_rng(41)
NHWC = ("NHWC", "OIHW", "NHWC")


def whole(*shape: int) -> np.ndarray:
    """Small whole numbers, so that every order of products and sums gives the same."""
    return RANDOM.integers(-4, 5, shape).astype(np.float32)


def flat(x: np.ndarray) -> np.ndarray:
    """An image as tt-mlir gives it to convolutions and pools."""
    return x.reshape(1, 1, -1, x.shape[-1])


@pytest.mark.parametrize(
    ("stride", "padding", "more"),
    [((2, 2), (0, 0, 0, 0), (0, 0)), ((2, 1), (1, 0, 0, 1), (0, 0)), ((2, 2), (1, 1, 1, 1), (1, 0))],
)
def test_a_transposed_convolution_is_the_gradient_of_one(
    stride: tuple[int, int], padding: tuple[int, int, int, int], more: tuple[int, int]
) -> None:
    x, weight = whole(2, 5, 4, 3), whole(3, 6, 3, 2)
    top, left, bottom, right = padding
    outer = [(2 - top, 2 - bottom + more[0]), (1 - left, 1 - right + more[1])]
    turned = np.flip(weight, (2, 3)).transpose(1, 0, 2, 3)
    want = np.asarray(lax.conv_general_dilated(x, turned, (1, 1), outer, lhs_dilation=stride, dimension_numbers=NHWC))
    attributes = (
        f"batch_size = 2 : i32, {CONFIG}, dilation = array<i32: 1, 1>, groups = 1 : i32, in_channels = 3 : i32, "
        f"input_height = 5 : i32, input_width = 4 : i32, kernel_size = array<i32: 3, 2>, out_channels = 6 : i32, "
        f"output_padding = array<i32: {more[0]}, {more[1]}>, padding = array<i32: {top}, {left}, {bottom}, {right}>, "
        f"stride = array<i32: {stride[0]}, {stride[1]}>"
    )
    got = run_op("ttnn.conv_transpose2d", attributes, [flat(x), weight], [(flat(want).shape, "f32")], device=True)[0]
    assert_array_equal(got, flat(want))


def test_a_convolution_of_lines() -> None:
    x, weight, dims = whole(2, 17, 6), whole(8, 3, 3), ("NWC", "OIW", "NWC")
    attributes = (
        f"batch_size = 2 : i32, {CONFIG}, dilation = 2 : i32, groups = 2 : i32, in_channels = 6 : i32, "
        "input_length = 17 : i32, kernel_size = 3 : i32, out_channels = 8 : i32, padding = array<i32: 1, 2>, "
        "stride = 2 : i32"
    )
    want = np.asarray(lax.conv_general_dilated(x, weight, (2,), [(1, 2)], (1,), (2,), dims, feature_group_count=2))
    got = run_op("ttnn.conv1d", attributes, [x, weight], [(flat(want).shape, "f32")], device=True)[0]
    assert_array_equal(got, flat(want))


@pytest.mark.parametrize("block", [16, 32])
def test_a_convolution_of_volumes_with_prepared_weights(block: int) -> None:
    x, weight = whole(1, 4, 5, 6, 32), whole(4, 3, 2, 2, 3)
    x[..., 3:] = 0  # what fills up the channels
    prepared, result = kind((32 * 12, 4)), kind((1, 3, 4, 4, 4))
    inputs = [kind(x.shape), kind(weight.shape)]
    body = (
        f'%w = "ttnn.prepare_conv3d_weights"(%arg1, %device) <{{alignment = 32 : i32, c_in_block = {block} : i32, '
        f"groups = 1 : i32}}> : ({inputs[1]}, !ttnn.device) -> {prepared}\n"
        f'%r = "ttnn.conv3d"(%arg0, %w, %device) <{{batch_size = 1 : i32, {CONFIG}, '
        f"conv3d_config = #ttnn.conv3d_config<t_out_block = 1, c_in_block = {block}>, "
        "dilation = array<i32: 1, 1, 1>, groups = 1 : i32, in_channels = 32 : i32, input_depth = 4 : i32, "
        "input_height = 5 : i32, input_width = 6 : i32, kernel_size = array<i32: 2, 2, 3>, out_channels = 4 : i32, "
        'padding = array<i32: 0, 0, 0>, padding_mode = "zeros", stride = array<i32: 1, 1, 1>}> : '
        f"({inputs[0]}, {prepared}, !ttnn.device) -> {result}"
    )
    dims = ("NDHWC", "OIDHW", "NDHWC")
    want = lax.conv_general_dilated(x[..., :3], weight, (1, 1, 1), "VALID", dimension_numbers=dims)
    assert_array_equal(run_text(module(function("main", body, inputs, [result], "%r")), [x, weight])[0], want)


def pooled(
    op: str, x: np.ndarray, shape: tuple[int, ...], more: str, *, padding: str = "1, 0", ceil: str = "false"
) -> np.ndarray:
    """Windows of 3 x 2 in steps of 2."""
    n, h, w, c = x.shape
    attributes = (
        f"batch_size = {n} : si32, ceil_mode = {ceil}, channels = {c} : si32, config_tensors_in_dram = true, "
        f"dilation = array<i32: 1, 1>, input_height = {h} : si32, input_width = {w} : si32, "
        f"kernel_size = array<i32: 3, 2>, padding = array<i32: {padding}>, reallocate_halo_output = false, "
        f"stride = array<i32: 2, 2>{more}"
    )
    return run_op(op, attributes, [flat(x)], [((1, 1, int(np.prod(shape[:3])), c), "f32")])[0].reshape(shape)


def windows(x: np.ndarray, start: float, join: object, padding: list[tuple[int, int]]) -> np.ndarray:
    every = [(0, 0), *padding, (0, 0)]
    return np.asarray(lax.reduce_window(x, np.float32(start), join, (1, 3, 2, 1), (1, 2, 2, 1), every))


def test_the_largest_of_windows() -> None:
    x = whole(2, 9, 8, 5)
    want = windows(x, -np.inf, lax.max, [(1, 1), (0, 0)])
    assert_array_equal(pooled("ttnn.max_pool2d", x, want.shape, ""), want)
    want = windows(x, -np.inf, lax.max, [(0, 1), (1, 0)])  # top, left, bottom, right
    assert_array_equal(pooled("ttnn.max_pool2d", x, want.shape, "", padding="0, 1, 1, 0"), want)


def test_a_window_that_is_cut_off_counts_with_ceil() -> None:
    x = whole(2, 8, 9, 5)
    want = windows(x, -np.inf, lax.max, [(0, 1), (0, 1)])
    assert want.shape[1:3] == (4, 5)
    assert_array_equal(pooled("ttnn.max_pool2d", x, want.shape, "", padding="0, 0", ceil="true"), want)


def test_averages_count_padding_where_asked_to() -> None:
    x = whole(2, 9, 8, 5)
    total = windows(x, 0, lax.add, [(1, 1), (0, 0)])
    one = ", count_include_pad = true, divisor_override = 1 : i32"
    assert_array_equal(pooled("ttnn.avg_pool2d", x, total.shape, one), total)
    got = pooled("ttnn.avg_pool2d", x, total.shape, ", count_include_pad = true")
    assert_array_equal(got, total / np.float32(6))
    with pytest.raises(StageFailure, match="expected padding to count in an average"):
        pooled("ttnn.avg_pool2d", x, total.shape, ", count_include_pad = false")


def test_norms_of_batches() -> None:
    x = RANDOM.uniform(1, 4, (2, 6, 4, 3)).astype(np.float32)
    weight, offset = (RANDOM.uniform(0.5, 2, (1, 6, 1, 1)).astype(np.float32) for _ in range(2))
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    want = (x - mean) / np.sqrt(variance + 1e-5) * weight + offset
    attributes = f"{CONFIG}, epsilon = 9.99999974E-6 : f32, "
    got = run_op(
        "ttnn.batch_norm_inference",
        attributes + "operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>",
        [x, mean, variance, weight, offset],
        [(x.shape, "f32")],
    )
    np.testing.assert_allclose(got[0], want, rtol=1e-5, atol=1e-5)
    attributes += "momentum = 1.000000e+00 : f32, operandSegmentSizes = array<i32: 1, 0, 0, 1, 1>"
    small = ((1, 6, 1, 1), "f32")
    trained = run_op("ttnn.batch_norm_training", attributes, [x, weight, offset], [(x.shape, "f32"), small, small])
    for result, right in zip(trained, (want, mean, variance), strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-5, atol=1e-5)
    with pytest.raises(StageFailure, match=r"expected a momentum of 1, got 0\.1"):
        run_op(
            "ttnn.batch_norm_training",
            attributes.replace("1.000000e+00", "1.000000e-01"),
            [x, weight, offset],
            [(x.shape, "f32"), small, small],
        )


NUMBER, VECTOR = kind((), "si32"), kind((5,))
BINARY = "<{activations = [], input_tensor_a_activations = [], input_tensor_b_activations = []}>"
COUNTED = (
    '%c = "ttnn.full"(%device) <{fill_value = 1 : i32, shape = #ttnn.shape<>}> : (!ttnn.device) -> ' + NUMBER + "\n"
    f'%n = "ttnn.add"(%arg0, %c) {BINARY} : ({NUMBER}, {NUMBER}) -> {NUMBER}\n'
    f'%v = "ttnn.add"(%arg1, %arg2) {BINARY} : ({VECTOR}, {VECTOR}) -> {VECTOR}'
)
STATE = [NUMBER, VECTOR, VECTOR]


def looped(attributes: str, *functions: str, inputs: list[str] | None = None) -> str:
    """A loop around the counted body: the last operands are only read."""
    own = STATE if inputs is None else inputs
    operands = ", ".join(f"%arg{n}" for n in range(len(own)))
    body = (
        f'%5:2 = "ttcore.while_loop"({operands}) <{{body_program = @body, {attributes}, '
        f"output_indices = array<i32: 0, 1>, state_count = 2 : i32}}> : ({', '.join(own)}) -> ({NUMBER}, {VECTOR})"
    )
    return module(
        function("main", body, own, STATE[:2], "%5#0, %5#1"),
        function("body", COUNTED, own, STATE[:2], "%n, %v", private=True),
        *functions,
    )


def start() -> list[np.ndarray]:
    return [np.array(3, np.int32), np.zeros(5, np.float32), np.arange(5, dtype=np.float32)]


def test_a_loop_counts_to_its_limit() -> None:
    bounds = "initial = #ttcore.loop_bound<3>, limit = #ttcore.loop_bound<10>, step = #ttcore.loop_bound<2>"
    count, total = run_text(looped(bounds), start())
    assert count == 3 + 4
    assert_array_equal(total, 4 * np.arange(5))


def test_a_loop_whose_limit_is_an_operand() -> None:
    bounds = "initial = #ttcore.loop_bound<0>, limit = #ttcore.loop_bound<0, 3 : i32>, step = #ttcore.loop_bound<1>"
    text = looped(bounds, inputs=[*STATE, NUMBER])
    count, total = run_text(text, [*start(), np.array(6, np.int32)])
    assert count == 3 + 6
    assert_array_equal(total, 6 * np.arange(5))
    assert run_text(text, [*start(), np.array(-2, np.int32)])[0] == 3, "no round at all"


def test_a_loop_runs_while_its_condition_holds() -> None:
    compare = (
        '%c = "ttnn.full"(%device) <{fill_value = 8 : i32, shape = #ttnn.shape<>}> : (!ttnn.device) -> ' + NUMBER + "\n"
        f'%b = "ttnn.lt"(%arg0, %c) {BINARY} : ({NUMBER}, {NUMBER}) -> {kind((), "bf16")}'
    )
    condition = function("goes_on", compare, STATE, [kind((), "bf16")], "%b", private=True)
    count, total = run_text(looped("condition_program = @goes_on", condition), start())
    assert count == 8
    assert_array_equal(total, 5 * np.arange(5))


def test_one_of_several_functions_runs() -> None:
    branches = [
        function(
            f"branch_{n}", f'%r = "ttnn.{op}"(%arg0) : ({VECTOR}) -> {VECTOR}', [VECTOR], [VECTOR], "%r", private=True
        )
        for n, op in enumerate(("neg", "square"))
    ]
    body = (
        '%r = "ttcore.case"(%arg0, %arg1) <{branch_programs = [@branch_0, @branch_1]}> : '
        f"({NUMBER}, {VECTOR}) -> {VECTOR}"
    )
    text = module(function("main", body, [NUMBER, VECTOR], [VECTOR], "%r"), *branches)
    x = np.arange(5, dtype=np.float32)
    for number, want in ((0, -x), (1, x * x), (7, x * x)):
        assert_array_equal(run_text(text, [np.array(number, np.int32), x])[0], want)
