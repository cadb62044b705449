"""softmax and norms as ttnn's own kernels make them."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target.fused_params import NormParams, SoftmaxParams
from opscope.compiler.target.numerics import ttnn_numerics
from opscope.compiler.target.program import Numerics
from opscope.simulator.api import Device
from opscope.simulator.kernels.addition_order import _phase_by_phase, elementwise_product, product
from opscope.simulator.kernels.matmul import PHASES
from opscope.simulator.kernels.real.fused import fast_exp, fast_rsqrt, softmax
from opscope.simulator.tests.programs import run_kernel

RANDOM = np.random.default_rng(11)
BF16 = np.dtype(ml_dtypes.bfloat16)
X = RANDOM.standard_normal((64, 96)).astype(BF16)


def error(got: np.ndarray, true: np.ndarray) -> float:
    """Root of the mean square of the relative error."""
    return float(np.sqrt(np.mean(np.square(got.astype(np.float64) / true - 1))))


def true_softmax(x: np.ndarray) -> np.ndarray:
    raised = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    ("numerics", "least", "most"),
    [
        (ttnn_numerics("softmax", ["Float16_b"], "Float16_b"), 0.015, 0.024),
        (Numerics(), 0.0015, 0.0023),
        (Numerics(dst_format="Float16_b"), 0.004, 0.007),
    ],
    ids=["of ttnn itself", "32 bits", "16 bits"],
)
def test_softmax_is_as_wrong_as_the_real_one(numerics: Numerics, least: float, most: float) -> None:
    """Recorded runs of bfloat16 against float64: 2.1e-2 by default, 1.9e-3, and 5.5e-3 with a Dst of 16 bits."""
    device = Device("p150", exact_order=True)
    got = run_kernel("softmax", SoftmaxParams(-1), [X], X.shape, "bf16", numerics, device=device)
    assert least < error(got, true_softmax(X.astype(np.float64))) < most


@pytest.mark.parametrize("kernel", ["layer_norm", "rms_norm"])
def test_norms_of_float32_carry_what_the_matrix_unit_reads(kernel: str) -> None:
    """Recorded runs: 5e-4 to 1.2e-3 by default, of rms_norm 4.4e-3."""
    x = RANDOM.standard_normal((64, 96)).astype(np.float32)
    wide = x.astype(np.float64) - (x.mean(-1, keepdims=True) if kernel == "layer_norm" else 0)
    true = wide / np.sqrt(np.mean(wide**2, -1, keepdims=True))
    numerics, params = ttnn_numerics(kernel, ["Float32"], "Float32"), NormParams(1e-12)
    exact, fast = (
        run_kernel(kernel, params, [x], x.shape, "f32", numerics, device=Device("p150", exact_order=order))
        for order in (True, False)
    )
    apart = np.abs(exact - true).max()
    assert (1e-4 < apart < 6e-3) if kernel == "layer_norm" else (3e-3 < apart < 0.06)
    assert np.abs(fast - true).max() < (1e-5 if kernel == "layer_norm" else 0.03)


def test_a_weight_and_a_bias_are_applied() -> None:
    x, device = RANDOM.standard_normal((32, 64)).astype(BF16), Device("p150", exact_order=True)
    weight, bias = (RANDOM.standard_normal(64).astype(BF16) for _ in range(2))
    wide = x.astype(np.float64)
    true = wide / np.sqrt(np.mean(wide**2, -1, keepdims=True)) * weight.astype(np.float64) + bias.astype(np.float64)
    got = run_kernel("rms_norm", NormParams(1e-6), [x, weight, bias], x.shape, "bf16", device=device)
    assert np.abs(got.astype(np.float64) - true).max() < 0.05


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_goes_along_any_dim(dim: int) -> None:
    x = X[None] if dim else X
    other = run_kernel("softmax", SoftmaxParams(dim), [x], x.shape, "f32", device=Device("p150", exact_order=True))
    raised = np.exp(x.astype(np.float64))
    assert np.allclose(other, raised / raised.sum(dim, keepdims=True), rtol=4e-3)  # TF32 on the way


def test_softmax_may_keep_its_largest_element() -> None:
    with np.errstate(all="ignore"):
        large = np.full((1, 32), 200, np.float32)
        assert softmax(large, Numerics(), stable=True).tolist() == [[1 / 32] * 32]
        assert softmax(large, Numerics(), stable=False).tolist() == [[0] * 32], "2^128 over a sum that is too large"


@pytest.mark.parametrize("fidelity", PHASES)
@pytest.mark.parametrize("dst", ["Float32", "Float16_b"])
def test_products_of_elements_are_those_of_a_product_of_depth_one(fidelity: str, dst: str) -> None:
    """ELWMUL.md and MVMUL.md: the same multipliers, with one product at a time."""
    a, b = (RANDOM.standard_normal(n).astype(np.float32) for n in (40, 50))
    a[:4], b[:4] = [2.0**-70, 0, 2.0**-126, 2.0**100], [2.0**-70, 2.0**-50, 1, 2.0**100]
    matrix = product(b[:, None], a[None], PHASES[fidelity], dst)
    with np.errstate(all="ignore"):
        got = elementwise_product(a[None], b[:, None], PHASES[fidelity], dst)
    assert got.tobytes() == matrix.tobytes()
    assert got.tobytes() == _phase_by_phase(*np.broadcast_arrays(a[None], b[:, None]), PHASES[fidelity], dst).tobytes()


def test_approximations_have_the_digits_that_they_say() -> None:
    x = np.linspace(-20, 0, 2001, dtype=np.float32)
    assert 0.02 < np.abs(fast_exp(x) / np.exp(x.astype(np.float64)) - 1).max() < 0.045
    assert fast_exp(np.float32([-100, -200])).tolist() == fast_exp(np.float32([-88.5, -88.5])).tolist()
    y = np.geomspace(1e-3, 1e3, 2001).astype(np.float32)
    assert 5e-4 < np.abs(fast_rsqrt(y) * np.sqrt(y.astype(np.float64)) - 1).max() < 2e-3


def test_fast_mode_does_not_see_what_ttnn_approximates() -> None:
    usual = ttnn_numerics("rms_norm", ["Float16_b"], "Float16_b")
    assert usual == Numerics("HiFi4", "Float16_b", math_approx=True)
    approximate, not_so = (
        run_kernel("rms_norm", NormParams(1e-6), [X], X.shape, "bf16", numerics, device=Device("p150"))
        for numerics in (usual, replace(usual, math_approx=False))
    )
    assert approximate.tobytes() == not_so.tobytes()
