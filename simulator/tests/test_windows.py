"""Convolution and pooling against XLA."""

from __future__ import annotations

import numpy as np
import pytest
from jax import lax

from opscope.compiler.target.program import Conv2dParams, Numerics, Pool2dParams
from opscope.compiler.target.rounding import quantise, to_tf32
from opscope.simulator.kernels.matmul import matrix_product
from opscope.simulator.tests.programs import run_kernel

RANDOM = np.random.default_rng(9)

CASES = {
    # NHWC, OIHW (the kernel takes HWIO), stride, padding (top, bottom, left, right), dilation, input dilation,
    # groups, batch groups
    "plain": ((1, 8, 9, 4), (6, 4, 3, 3), (1, 1), (0, 0, 0, 0), (1, 1), (1, 1), 1, 1),
    "stem": ((2, 16, 16, 3), (8, 3, 7, 7), (2, 2), (3, 3, 3, 3), (1, 1), (1, 1), 1, 1),
    "patch": ((1, 16, 16, 3), (8, 3, 4, 4), (4, 4), (0, 0, 0, 0), (1, 1), (1, 1), 1, 1),
    "uneven": ((1, 9, 7, 4), (5, 4, 2, 3), (2, 1), (0, 2, 1, 0), (1, 1), (1, 1), 1, 1),
    "dilated": ((1, 12, 12, 4), (5, 4, 3, 3), (1, 2), (2, 2, 2, 2), (2, 3), (1, 1), 1, 1),
    "transposed": ((1, 5, 6, 4), (5, 4, 3, 3), (1, 1), (2, 1, 2, 2), (1, 1), (2, 3), 1, 1),
    "cropped": ((1, 9, 9, 4), (5, 4, 3, 3), (1, 1), (-1, 1, 2, -2), (1, 1), (1, 1), 1, 1),
    "grouped": ((2, 8, 8, 6), (9, 2, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), (1, 1), 3, 1),
    "depthwise": ((1, 8, 8, 6), (6, 1, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), (1, 1), 6, 1),
    "batch_groups": ((4, 8, 8, 5), (6, 5, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), (1, 1), 1, 2),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_convolution_is_xla_s(name: str) -> None:
    shape, weight_shape, stride, padding, dilation, input_dilation, groups, batch_groups = CASES[name]
    x = RANDOM.standard_normal(shape).astype(np.float32)
    weight = RANDOM.standard_normal(weight_shape).astype(np.float32)
    # Operands that the matrix unit keeps whole: the difference left is the order of float32 sums.
    x, weight = to_tf32(x), (weight.view(np.uint32) & 0xFFFFC000).view(np.float32)
    want = np.asarray(
        lax.conv_general_dilated(
            x,
            weight,
            stride,
            (padding[:2], padding[2:]),
            input_dilation,
            dilation,
            ("NHWC", "OIHW", "NHWC"),
            feature_group_count=groups,
            batch_group_count=batch_groups,
        )
    )
    params = Conv2dParams(stride, padding, dilation, input_dilation, groups, batch_groups)
    got = run_kernel("conv2d", params, [x, weight.transpose(2, 3, 1, 0)], want.shape, "f32")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_large_convolutions_are_done_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from opscope.simulator.kernels import conv

    x = RANDOM.standard_normal((2, 12, 12, 4)).astype(np.float32)
    weight = RANDOM.standard_normal((3, 3, 4, 5)).astype(np.float32)
    params = Conv2dParams((1, 1), (1, 1, 1, 1), (1, 1))
    whole = run_kernel("conv2d", params, [x, weight], (2, 12, 12, 5), "f32")
    monkeypatch.setattr(conv, "CHUNK_BYTES", 1)
    parts = run_kernel("conv2d", params, [x, weight], (2, 12, 12, 5), "f32")
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-5)


def test_bias_and_fidelity() -> None:
    x = RANDOM.standard_normal((1, 8, 8, 16)).astype(np.float32)
    weight, bias = RANDOM.standard_normal((3, 3, 16, 8)).astype(np.float32), np.arange(8, dtype=np.float32)
    params = Conv2dParams((1, 1), (0, 0, 0, 0), (1, 1))
    without = run_kernel("conv2d", params, [x, weight], (1, 6, 6, 8), "f32")
    np.testing.assert_allclose(run_kernel("conv2d", params, [x, weight, bias], (1, 6, 6, 8), "f32"), without + bias)
    rough = run_kernel("conv2d", params, [x, weight], (1, 6, 6, 8), "f32", Numerics("LoFi"))
    assert 1e-2 < np.linalg.norm(rough - without) / np.linalg.norm(without) < 9e-2


@pytest.mark.parametrize(
    ("kernel", "init", "function"),
    [("max_pool2d", -np.inf, lax.max), ("min_pool2d", np.inf, lax.min), ("sum_pool2d", 0.0, lax.add)],
)
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
def test_pools_are_xla_s(kernel: str, init: float, function: object, dilation: tuple[int, int]) -> None:
    x = RANDOM.integers(-64, 64, (2, 11, 9, 3)).astype(np.float32)
    want = np.asarray(
        lax.reduce_window(
            x,
            np.float32(init),
            function,
            (1, 3, 2, 1),
            (1, 2, 1, 1),
            ((0, 0), (1, 1), (0, 1), (0, 0)),
            window_dilation=(1, *dilation, 1),
        )
    )
    params = Pool2dParams((3, 2), (2, 1), (1, 1, 0, 1), dilation, 6.0)
    assert np.array_equal(run_kernel(kernel, params, [x], want.shape, "f32"), want)
    if kernel == "sum_pool2d":
        np.testing.assert_allclose(run_kernel("avg_pool2d", params, [x], want.shape, "f32"), want / 6, rtol=1e-6)


def test_integer_pool() -> None:
    x = RANDOM.integers(-9, 9, (1, 4, 4, 2)).astype(np.int32)
    got = run_kernel("max_pool2d", Pool2dParams((2, 2), (2, 2), (0, 0, 0, 0), (1, 1)), [x], (1, 2, 2, 2), "i32")
    assert np.array_equal(got, x.reshape(1, 2, 2, 2, 2, 2).max((2, 4)))


@pytest.mark.parametrize("fidelity", ["LoFi", "HiFi2", "HiFi3", "HiFi4"])
def test_a_convolution_is_the_product_of_its_windows_bit_for_bit(fidelity: str) -> None:
    """An image is cut to what the unit reads before its windows are copied, which must change nothing."""
    x = RANDOM.standard_normal((1, 6, 6, 3)).astype(np.float32)
    x[0, 0, 0] = [1e-40, -0.0, np.inf]
    weight = RANDOM.standard_normal((3, 3, 3, 5)).astype(np.float32)
    numerics = Numerics(fidelity)
    params = Conv2dParams((1, 1), (0, 0, 0, 0), (1, 1), (1, 1), 1, 1)
    got = run_kernel("conv2d", params, [x, weight], (1, 4, 4, 5), "f32", numerics)
    rows = np.stack([x[0, i : i + 3, j : j + 3].reshape(-1) for i in range(4) for j in range(4)])
    with np.errstate(all="ignore"):
        want = quantise(matrix_product(rows, weight.reshape(27, 5), numerics), "Float32")
    assert np.array_equal(got.reshape(16, 5).view(np.uint32), want.view(np.uint32))
