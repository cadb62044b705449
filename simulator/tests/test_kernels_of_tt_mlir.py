"""Kernels that only tt-mlir's lowerings need, against XLA and NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from jax import lax
from numpy.testing import assert_array_equal

from opscope.compiler.target.binary import write
from opscope.compiler.target.fused_params import NormParams
from opscope.compiler.target.program import (
    BroadcastParams,
    IndexedRowsParams,
    Params,
    ReduceParams,
    SliceParams,
    SortParams,
)
from opscope.simulator.api import Device, DeviceError, error_bound
from opscope.simulator.tests.programs import one_kernel, run_kernel, run_several

RANDOM = np.random.default_rng(31)
X = RANDOM.standard_normal((3, 4, 5)).astype(np.float32)


def test_repeat_repeats_whole_dims_and_not_their_elements() -> None:
    for shape in ((6, 4, 5), (3, 12, 10), (3, 4, 5)):
        times = tuple(size // n for n, size in zip(X.shape, shape, strict=True))
        assert_array_equal(run_kernel("repeat", BroadcastParams(shape), [X], shape, "f32"), np.tile(X, times))


def test_repeat_refuses_a_size_that_is_no_multiple() -> None:
    with pytest.raises(DeviceError, match=r"multiples of \(3, 4, 5\)"):
        run_kernel("repeat", BroadcastParams((4, 4, 5)), [X], (4, 4, 5), "f32")


def test_a_slice_starts_where_its_operand_says() -> None:
    begins, ends = np.array([1, 0, 2], np.uint32), np.array([3, 4, 5], np.uint32)
    params = SliceParams((), (), (1, 2, 1))
    assert_array_equal(run_kernel("slice_dynamic", params, [X, begins, ends], (2, 2, 3), "f32"), X[1:3, ::2, 2:5])


def test_a_slice_that_ends_outside_is_refused() -> None:
    begins, ends = np.array([2, 0, 2], np.uint32), np.array([4, 4, 5], np.uint32)
    with pytest.raises(DeviceError, match="expected a result of shape"):
        run_kernel("slice_dynamic", SliceParams((), (), (1, 1, 1)), [X, begins, ends], (2, 4, 3), "f32")


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sorts_are_stable_and_tell_where_values_were(dim: int) -> None:
    x = np.round(X * 2) + np.float32(0)  # equal ones, and no -0, which the device holds to be less than 0
    places = np.broadcast_to(np.arange(x.shape[dim]).reshape([-1 if d == dim else 1 for d in range(3)]), x.shape)
    for kernel, sign in (("sort_ascending", 1), ("sort_descending", -1)):
        want, order = lax.sort(
            [sign * x + np.float32(0), places.astype(np.int32)], dimension=dim, num_keys=1, is_stable=True
        )
        values, indices = run_several(kernel, SortParams(dim), [x], [(x.shape, "f32"), (x.shape, "ui16")])
        assert_array_equal(values, sign * np.asarray(want))
        assert_array_equal(indices, np.asarray(order))


@pytest.mark.parametrize(("kernel", "reference"), [("cummax", lax.cummax), ("cummin", lax.cummin)])
def test_running_extremes_are_xlas(kernel: str, reference: object) -> None:
    got = run_kernel(kernel, ReduceParams((1,)), [X], X.shape, "f32")
    assert_array_equal(got, np.asarray(reference(X, axis=1)))


def of_channels() -> np.ndarray:
    return RANDOM.uniform(0.5, 2, (1, 6, 1, 1)).astype(np.float32)


def test_batch_norm_with_given_statistics_is_within_its_bound() -> None:
    x, mean, variance, weight, offset = (RANDOM.uniform(1, 4, (2, 6, 4, 3)), *(of_channels() for _ in range(4)))
    x, epsilon = x.astype(np.float32), np.float32(1e-5)
    got = run_kernel("batch_norm_inference", NormParams(1e-5), [x, mean, variance, weight, offset], x.shape, "f32")
    wide = [v.astype(np.float64) for v in (x, mean, variance, weight, offset)]
    want = (wide[0] - wide[1]) / np.sqrt(wide[2] + np.float64(epsilon)) * wide[3] + wide[4]
    # Of the largest term: the offset may cancel the rest.
    scale = np.maximum(np.abs(want - wide[4]), wide[4])
    assert (np.abs(got - want) <= error_bound("batch_norm_inference") * np.spacing(scale.astype(np.float32))).all()


def test_batch_norm_of_a_batch_gives_its_statistics() -> None:
    x = RANDOM.uniform(1, 4, (2, 6, 4, 3)).astype(np.float32)
    weight, offset = of_channels(), of_channels()
    results = [(shape, "f32") for shape in (x.shape, weight.shape, weight.shape)]
    outputs = run_several("batch_norm_training", NormParams(1e-5), [x, weight, offset], results)
    wide = x.astype(np.float64)
    mean, variance = wide.mean((0, 2, 3), keepdims=True), wide.var((0, 2, 3), keepdims=True)
    want = (wide - mean) / np.sqrt(variance + 1e-5) * weight + offset
    for got, right in zip(outputs, (want, mean, variance), strict=True):
        np.testing.assert_allclose(got, right, rtol=2e-6, atol=2e-6)


def cycles(kernel: str, params: Params, *arrays: np.ndarray) -> int:
    """Cycles of a program of one kernel whose result is like its first input, on an n150."""
    first = (arrays[0].shape, "f32")
    more = [(arrays[0].shape, "ui16")] if kernel.startswith("sort") else []
    inputs = [(array.shape, {"f": "f32", "i": "i32"}[array.dtype.kind]) for array in arrays]
    binary = one_kernel(kernel, params, inputs, first, more=more)
    return Device("n150").load(write(binary)).run(arrays).profile.total_cycles


def test_a_sort_without_a_comparator_takes_the_passes_of_its_network() -> None:
    x = RANDOM.standard_normal((1024, 512)).astype(np.float32)
    short, long = cycles("sort_ascending", SortParams(1), x.reshape(-1, 32)), cycles("sort_ascending", SortParams(1), x)
    assert short < long < 4 * short, "9 stages in place of 5: 45 steps to 15"


def test_a_gather_reads_the_rows_that_it_returns_and_a_scatter_the_whole_table() -> None:
    table, index = np.zeros((1, 65536, 64), np.float32), np.zeros((1, 1, 32), np.int32)
    new = np.zeros((1, 32, 64), np.float32)
    params = IndexedRowsParams((65536,), (1,))
    inputs = [(table.shape, "f32"), (index.shape, "i32")]
    program = one_kernel("rows_gather", params, inputs, (new.shape, "f32"))
    gather = Device("n150").load(write(program)).run([table, index]).profile.total_cycles
    assert gather * 10 < cycles("rows_scatter", params, table, index, new)
