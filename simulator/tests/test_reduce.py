from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler.target.program import Numerics, ReduceParams
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


def test_sums_lose_what_the_matrix_unit_loses() -> None:
    x = np.abs(RANDOM.standard_normal((32, 1024))).astype(np.float32)
    true = x.astype(np.float64).sum(1)
    errors = [
        np.abs(run_kernel("sum", ReduceParams((1,)), [x], (32,), "f32", numerics) / true - 1).max()
        for numerics in (Numerics("HiFi4"), Numerics("LoFi"), Numerics("HiFi4", "Float16_b"))
    ]
    assert 1e-4 < errors[0] < 2e-3 < errors[1]
    assert errors[2] > errors[0]
    exact = np.ones((2, 4096), np.float32)
    assert run_kernel("sum", ReduceParams((1,)), [exact], (2,), "f32").tolist() == [4096, 4096]


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
