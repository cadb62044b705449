"""`rows_gather` and `rows_scatter` against XLA's gather, dynamic_update_slice and scatter: exact."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from numpy.testing import assert_array_equal

from opscope.compiler.target.program import IndexedRowsParams
from opscope.simulator.api import DeviceError
from opscope.simulator.tests.programs import run_kernel

RANDOM = np.random.default_rng(29)
TABLE = RANDOM.standard_normal((2, 12, 5)).astype(np.float32)
TABLE[0, 1, :3] = [1e-42, np.nan, -0.0]
BESIDE = np.array([[[3, -1, 11, 40, 7]]], np.int32)
"""Rows of which the second and the fourth are outside."""


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint32)


def gathered(table: np.ndarray, indices: np.ndarray, params: IndexedRowsParams, shape: tuple[int, ...]) -> np.ndarray:
    return run_kernel("rows_gather", params, [table, indices], shape, "f32")


def scattered(table: np.ndarray, indices: np.ndarray, new: np.ndarray, params: IndexedRowsParams) -> np.ndarray:
    return run_kernel("rows_scatter", params, [table, indices, new], table.shape, "f32")


def test_rows_are_those_of_the_nearest_place_inside() -> None:
    want = np.take(TABLE, BESIDE[0, 0], axis=1, mode="clip")
    assert_array_equal(bits(gathered(TABLE, BESIDE, IndexedRowsParams((12,), (1,)), (2, 5, 5))), bits(want))


def test_with_fill_a_place_outside_gives_zeros() -> None:
    want = np.take(TABLE, BESIDE[0, 0], axis=1, mode="clip")
    want[:, [1, 3]] = 0
    got = gathered(TABLE, BESIDE, IndexedRowsParams((12,), (1,), fill=True), (2, 5, 5))
    assert_array_equal(bits(got), bits(want))


def test_an_unsigned_index_beyond_the_signed_ones_is_at_the_end() -> None:
    index = np.array([[[0x80000003]]], np.uint32)
    got = gathered(TABLE, index, IndexedRowsParams((12,), (1,)), (2, 1, 5))
    assert_array_equal(got, TABLE[:, 11:])


def test_several_coordinates_and_windows_are_a_gather_of_xla() -> None:
    starts = np.array([[0, 2], [1, 1], [2, 3], [-5, 9]], np.int32)
    dims = lax.GatherDimensionNumbers(offset_dims=(1, 2, 3), collapsed_slice_dims=(), start_index_map=(0, 1))
    whole = TABLE[0].reshape(3, 4, 5)
    want = lax.gather(whole, starts, dims, (2, 3, 5), mode=lax.GatherScatterMode.CLIP)
    params = IndexedRowsParams((3, 4), (2, 3))
    got = gathered(TABLE[:1], starts.T[np.newaxis], params, (1, 4 * 6, 5))
    assert_array_equal(bits(got.reshape(4, 2, 3, 5)), bits(np.asarray(want)))


def test_columns_are_elements_of_rows() -> None:
    rows, columns = np.array([0, 11, 4], np.int32), np.array([1, 3, 0], np.int32)
    params = IndexedRowsParams((12, 5), (1, 2), column=True)
    got = gathered(TABLE, np.stack([rows, columns])[np.newaxis], params, (2, 6))
    want = np.stack([TABLE[:, r, c : c + 2] for r, c in zip(rows, columns, strict=True)], axis=1)
    assert_array_equal(bits(got), bits(want.reshape(2, 6)))


def test_every_batch_may_have_indices_of_its_own() -> None:
    index = np.array([[[3, 0]], [[5, 11]]], np.int32)
    got = gathered(TABLE, index, IndexedRowsParams((12,), (1,)), (2, 2, 5))
    assert_array_equal(bits(got), bits(np.stack([TABLE[0, [3, 0]], TABLE[1, [5, 11]]])))


def test_a_window_that_is_written_is_a_dynamic_update_slice_of_xla() -> None:
    whole = TABLE[0].reshape(3, 4, 5)
    new = RANDOM.standard_normal((2, 2, 3)).astype(np.float32)
    want = np.asarray(lax.dynamic_update_slice(whole, new, (1, 2, 1)))
    params = IndexedRowsParams((3, 4, 5), (2, 2, 3), column=True)
    got = scattered(TABLE[:1], np.array([[[1], [2], [1]]], np.int32), new.reshape(1, 12), params)
    assert_array_equal(bits(got.reshape(3, 4, 5)), bits(want))


@pytest.mark.parametrize("combine", ["update", "add", "multiply", "maximum", "minimum"])
def test_a_scatter_of_rows_is_xlas_and_drops_what_is_outside(combine: str) -> None:
    table = RANDOM.standard_normal((1, 12, 5)).astype(np.float32)
    new = RANDOM.standard_normal((1, 5, 5)).astype(np.float32)
    at = jnp.asarray(table[0]).at[np.array([3, 99, 11, 40, 7])]
    method = {"update": at.set, "add": at.add, "multiply": at.multiply, "maximum": at.max, "minimum": at.min}[combine]
    got = scattered(table, BESIDE, new, IndexedRowsParams((12,), (1,), combine=combine))
    assert_array_equal(got[0], np.asarray(method(new[0], mode="drop")))


def test_updates_at_one_place_are_joined_one_after_another() -> None:
    index = np.array([[[4, 4, 4]]], np.int32)
    new = np.float32([[[1e8], [1], [-1e8]]]) + np.zeros((1, 1, 5), np.float32)
    zeros = np.zeros((1, 12, 5), np.float32)
    params = IndexedRowsParams((12,), (1,), combine="add")
    assert (scattered(zeros, index, new, params)[0, 4] == 0).all(), "1e8 + 1 is 1e8 in float32"
    assert (scattered(zeros, index, new[:, ::-1], params)[0, 4] == 0).all()
    assert (scattered(zeros, index, new[:, [0, 2, 1]], params)[0, 4] == 1).all()


def test_a_narrow_sum_is_rounded_at_each_update() -> None:
    index = np.array([[[4, 4]]], np.int32)
    new = np.full((1, 2, 5), 0.5, np.float32)
    table = np.full((1, 12, 5), 256, np.float32)
    params = IndexedRowsParams((12,), (1,), combine="add")
    got = run_kernel("rows_scatter", params, [table, index, new], table.shape, "f32", data_format="Float16_b")
    assert (got[0, 4] == 256).all(), "256.5 is 256 in bfloat16, ties to even or not"


def test_elements_that_no_update_reaches_keep_every_bit() -> None:
    params = IndexedRowsParams((12,), (1,), combine="add")
    got = scattered(TABLE, np.array([[[5]]], np.int32), np.ones((2, 1, 5), np.float32), params)
    others = [row for row in range(12) if row != 5]
    assert_array_equal(bits(got[:, others]), bits(TABLE[:, others]))


def test_a_table_without_the_rows_of_its_sizes_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"rows for \(13,\)"):
        gathered(TABLE, BESIDE, IndexedRowsParams((13,), (1,)), (2, 5, 5))
    with pytest.raises(DeviceError, match=r"indices of shape \(batches, 2, positions\)"):
        gathered(TABLE, BESIDE, IndexedRowsParams((3, 4), (1, 1)), (2, 5, 5))
