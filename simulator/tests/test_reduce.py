from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target.program import Numerics, ReduceParams
from opscope.simulator.api import Device
from opscope.simulator.tests.programs import run_kernel

RANDOM = np.random.default_rng(13)
X = RANDOM.standard_normal((4, 33, 65)).astype(np.float32)


@pytest.mark.parametrize("dims", [(0,), (2,), (0, 2), (0, 1, 2), (-1,)])
@pytest.mark.parametrize("keep", [False, True])
def test_reductions_equal_numpy(dims: tuple[int, ...], keep: bool) -> None:
    for name, function in (("max", np.max), ("min", np.min), ("sum", np.sum), ("mean", np.mean), ("prod", np.prod)):
        want = np.asarray(function(X, axis=dims, keepdims=keep))
        got = run_kernel(name, ReduceParams(dims, keep), [X], want.shape, "f32")
        if name in ("max", "min"):
            assert np.array_equal(got, want)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=0.05)


@pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])
def test_sums_lose_what_their_unit_loses(exact: bool) -> None:
    """Along rows SrcB reads 7 bits of each value in LoFi, along columns SrcA reads 5; float32 loses next to nothing."""
    x = np.abs(RANDOM.standard_normal((1024, 1024))).astype(ml_dtypes.bfloat16).astype(np.float32)
    device = Device("p150", exact_order=exact)

    def error(dim: int, fidelity: str, dst: str, data_format: str | None = "Float16_b") -> float:
        """The largest relative error of sums along a dim."""
        numerics, true = Numerics(fidelity, dst), x.astype(np.float64).sum(dim)
        params = ReduceParams((dim,))
        got = run_kernel("sum", params, [x], (1024,), "f32", numerics, data_format=data_format, device=device)
        return float(np.abs(got / true - 1).max())

    assert error(1, "HiFi4", "Float32", None) < 1e-6
    assert error(1, "HiFi4", "Float32") < 4e-3 < error(0, "LoFi", "Float32")
    assert error(1, "LoFi", "Float32") < 0.01 < error(0, "LoFi", "Float32")
    assert error(1, "HiFi4", "Float16_b") > 0.01
    ones = np.ones((2, 4096), np.float32)
    assert run_kernel("sum", ReduceParams((1,)), [ones], (2,), "f32", device=device).tolist() == [4096, 4096]


@pytest.mark.parametrize("exact", [False, True], ids=["fast", "exact"])
@pytest.mark.parametrize(("count", "low"), [(96, 0.0039), (64, 0.0)])
def test_means_multiply_by_a_factor_that_is_cut_to_bfloat16(count: int, low: float, exact: bool) -> None:
    """1/96 is 0.39 % too small in bfloat16; powers of two are not touched, nor is float32 on the vector unit."""
    ones, device = np.ones((4, count), ml_dtypes.bfloat16), Device("p150", exact_order=exact)
    got = run_kernel("mean", ReduceParams((1,)), [ones], (4,), "bf16", device=device).astype(np.float64)
    assert got == pytest.approx(1 - low, abs=2e-4)
    wide = run_kernel("mean", ReduceParams((1,)), [ones.astype(np.float32)], (4,), "f32", device=device)
    assert wide == pytest.approx(1, rel=1e-6)


def test_integers_wrap() -> None:
    x = np.array([[2**31 - 1, 1, 5], [3, -7, 2]], np.int32)
    assert run_kernel("sum", ReduceParams((1,)), [x], (2,), "i32").tolist() == [-(2**31) + 5, -2]
    assert run_kernel("max", ReduceParams((0,)), [x], (3,), "i32").tolist() == [2**31 - 1, 1, 5]
    small = np.array([100, 100], np.int8)
    assert run_kernel("sum", ReduceParams((0,)), [small], (), "i8").tolist() == -56


def test_booleans_and_bits() -> None:
    x = np.array([[True, True], [True, False]])
    assert run_kernel("reduce_and", ReduceParams((1,)), [x], (2,), "i1").tolist() == [True, False]
    assert run_kernel("reduce_or", ReduceParams((0,)), [x], (2,), "i1").tolist() == [True, True]
    bits = np.array([6, 3], np.int32)
    assert run_kernel("reduce_and", ReduceParams((0,)), [bits], (), "i32") == 2
    assert run_kernel("reduce_or", ReduceParams((0,)), [bits], (), "i32") == 7
    assert run_kernel("reduce_xor", ReduceParams((0,)), [bits], (), "i32") == 5


def test_argmax_takes_the_first() -> None:
    x = np.float32([[1, 3, 3], [5, 2, 5]])
    assert run_kernel("argmax", ReduceParams((1,)), [x], (2,), "i32").tolist() == [1, 0]
    assert run_kernel("argmin", ReduceParams((1,)), [x], (2,), "i32").tolist() == [0, 1]


def test_empty_reductions_give_the_identity() -> None:
    x = np.zeros((3, 0), np.float32)
    assert run_kernel("max", ReduceParams((1,)), [x], (3,), "f32").tolist() == [-np.inf] * 3
    assert run_kernel("sum", ReduceParams((1,)), [x], (3,), "f32").tolist() == [0] * 3
