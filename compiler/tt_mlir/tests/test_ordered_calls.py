"""Rows of the table for ops that take, order or bound elements: results on the simulator against XLA and NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from jax import lax
from numpy.testing import assert_array_equal

from opscope.compiler.errors import StageFailure
from opscope.compiler.tt_mlir.tests.ttnn_text import run_op

RANDOM = np.random.default_rng(37)
X = RANDOM.standard_normal((3, 4, 5)).astype(np.float32)
TABLE = RANDOM.standard_normal((1, 12, 5)).astype(np.float32)
PLACES = np.array([[[3, -1, 11, 40, 3]]], np.int32)
BINARY = "activations = [], input_tensor_a_activations = [], input_tensor_b_activations = []"


def rows(fill: bool = False) -> str:
    return f"column = false, fill_out_of_bounds = {str(fill).lower()}, sizes = array<i64: 12>, windows = array<i64: 1>"


def test_rows_are_gathered() -> None:
    want = TABLE[:, [3, 0, 11, 11, 3]]
    assert_array_equal(run_op("ttnn.rows_gather", rows(), [TABLE, PLACES], [((1, 5, 5), "f32")])[0], want)
    want[:, [1, 3]] = 0
    assert_array_equal(run_op("ttnn.rows_gather", rows(fill=True), [TABLE, PLACES], [((1, 5, 5), "f32")])[0], want)


def test_elements_are_gathered() -> None:
    places = np.array([[[3, 11], [4, 0]]], np.int32)
    attributes = "column = true, fill_out_of_bounds = false, sizes = array<i64: 12, 5>, windows = array<i64: 1, 1>"
    got = run_op("ttnn.rows_gather", attributes, [TABLE, places], [((1, 2), "f32")])[0]
    assert_array_equal(got, TABLE[:, [3, 11], [4, 0]])


def scatter(reduce: str) -> str:
    return f"column = false, reduce = #ttcore.reduce_type<{reduce}>, sizes = array<i64: 12>, windows = array<i64: 1>"


@pytest.mark.parametrize(
    ("reduce", "join"),
    [("invalid", None), ("sum", np.add), ("prod", np.multiply), ("max", np.maximum), ("min", np.minimum)],
)
def test_updates_are_joined_as_the_reduction_says(reduce: str, join: np.ufunc | None) -> None:
    new = RANDOM.standard_normal((1, 5, 5)).astype(np.float32)
    want = TABLE.copy()
    for update, place in enumerate(PLACES.ravel()):
        if 0 <= place < 12:
            old = want[0, place]
            want[0, place] = new[0, update] if join is None else join(old, new[0, update])
    got = run_op("ttnn.rows_scatter", scatter(reduce), [TABLE, PLACES, new], [((1, 12, 5), "f32")])[0]
    assert_array_equal(got, want)


def test_a_reduction_that_is_not_known_is_refused() -> None:
    new = np.zeros((1, 5, 5), np.float32)
    with pytest.raises(StageFailure, match="expected a reduction of invalid, sum, prod, max, min, got mean"):
        run_op("ttnn.rows_scatter", scatter("mean"), [TABLE, PLACES, new], [((1, 12, 5), "f32")])


def test_an_attribute_that_no_row_reads_is_refused() -> None:
    with pytest.raises(StageFailure, match=r"ttnn\.rows_gather.*got wrap"):
        run_op("ttnn.rows_gather", rows() + ", wrap = true", [TABLE, PLACES], [((1, 5, 5), "f32")])


def test_a_slice_begins_and_ends_where_its_operands_say() -> None:
    arrays = [X, np.array([1, 0, 2], np.uint32), np.array([3, 4, 5], np.uint32)]
    assert_array_equal(run_op("ttnn.slice_dynamic", "", arrays, [((2, 4, 3), "f32")])[0], X[1:3, :, 2:5])
    steps = "step = [1 : i32, 2 : i32, 1 : i32]"
    assert_array_equal(run_op("ttnn.slice_dynamic", steps, arrays, [((2, 2, 3), "f32")])[0], X[1:3, ::2, 2:5])


@pytest.mark.parametrize("shape", [(12, 5), (1, 1, 12, 5)])
def test_rows_of_a_matrix_are_embedded(shape: tuple[int, ...]) -> None:
    index = np.array([[3, 0, 11], [1, 1, 2]], np.uint32)
    got = run_op("ttnn.embedding", "", [index, TABLE.reshape(shape)], [((2, 3, 5), "f32")])[0]
    assert_array_equal(got, TABLE[0, index])


def test_a_tensor_is_repeated() -> None:
    got = run_op("ttnn.repeat", "repeat_dims = #ttnn.shape<2x1x3>", [X], [((6, 4, 15), "f32")])[0]
    assert_array_equal(got, np.tile(X, (2, 1, 3)))
    with pytest.raises(StageFailure, match=r"expected a result of \(6, 4, 15\), got \(6, 4, 5\)"):
        run_op("ttnn.repeat", "repeat_dims = #ttnn.shape<2x1x3>", [X], [((6, 4, 5), "f32")])


def test_sorts_go_both_ways() -> None:
    for descending, sign in (("false", 1), ("true", -1)):
        attributes = f"descending = {descending}, dim = -1 : si8, stable = true"
        values, places = run_op("ttnn.sort", attributes, [X], [(X.shape, "f32"), (X.shape, "ui16")])
        order = np.argsort(sign * X, axis=-1, kind="stable")
        assert_array_equal(places, order)
        assert_array_equal(values, np.take_along_axis(X, order, -1))


def topk(largest: str, dim: int = 2) -> list[np.ndarray]:
    attributes = f"dim = {dim} : si32, k = 2 : i32, largest = {largest}, sorted = true"
    return run_op("ttnn.topk", attributes, [X], [((3, 4, 2), "f32"), ((3, 4, 2), "si32")])


def test_the_largest_come_first() -> None:
    want, places = lax.top_k(X, 2)
    got = topk("true")
    assert_array_equal(got[0], np.asarray(want))
    assert_array_equal(got[1], np.asarray(places))


def test_forms_of_topk_without_a_kernel_are_refused() -> None:
    with pytest.raises(StageFailure, match="expected the largest, got the smallest"):
        topk("false")
    with pytest.raises(StageFailure, match="expected the last dim, got 1"):
        topk("true", dim=1)


@pytest.mark.crossed
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("reduction", "reference"), [("sum", lax.cumsum), ("prod", lax.cumprod), ("max", lax.cummax), ("min", lax.cummin)]
)
def test_running_values_from_either_end(reduction: str, reference: object, reverse: bool) -> None:
    attributes = f"dim = 1 : si32, reduction = #ttcore.reduce_type<{reduction}>, reverse = {str(reverse).lower()}"
    whole = np.round(X * 2)  # so that sums and products are exact
    got = run_op("ttnn.cumulative", attributes, [whole], [(X.shape, "f32")])[0]
    assert_array_equal(got, np.asarray(reference(whole, axis=1, reverse=reverse)))


def test_a_running_sum() -> None:
    whole = np.round(X * 2)
    assert_array_equal(run_op("ttnn.cumsum", "dim = 2 : si32", [whole], [(X.shape, "f32")])[0], np.cumsum(whole, 2))


def test_numbers_are_kept_between_two() -> None:
    attributes = "max = 5.000000e-01 : f32, min = -2.500000e-01 : f32"
    assert_array_equal(run_op("ttnn.clamp_scalar", attributes, [X], [(X.shape, "f32")])[0], np.clip(X, -0.25, 0.5))
    whole = np.arange(-9, 9, dtype=np.int32)
    got = run_op("ttnn.clamp_scalar", "max = 4 : i32, min = -3 : i32", [whole], [((18,), "si32")])[0]
    assert_array_equal(got, np.clip(whole, -3, 4))
    low, high = np.full_like(X, -0.25), np.full_like(X, 0.5)
    assert_array_equal(run_op("ttnn.clamp_tensor", "", [X, low, high], [(X.shape, "f32")])[0], np.clip(X, low, high))


def test_the_exponent_of_a_power_is_a_number() -> None:
    for exponent in (2.0, 0.5, -3.0):
        x = np.abs(X) + 1
        got = run_op("ttnn.pow_scalar", f"rhs = {exponent:e} : f32", [x], [(X.shape, "f32")])[0]
        np.testing.assert_allclose(got, np.power(x.astype(np.float64), exponent), rtol=1e-6)


def test_a_shift_of_bits_keeps_the_sign_within_the_width() -> None:
    a, by = np.array([-8, -8, -8, 8, -1], np.int32), np.array([1, 31, 32, 2, -1], np.int32)
    got = run_op("ttnn.bitwise_right_shift", BINARY, [a, by], [((5,), "si32")])[0]
    assert_array_equal(got, [-4, -1, 0, 2, 0])


def test_bits_are_another_type() -> None:
    assert_array_equal(run_op("ttnn.bitcast_convert", "", [X], [(X.shape, "si32")])[0], X.view(np.int32))


def test_numbers_are_rounded_to_fewer_bits() -> None:
    got = run_op("ttnn.reduce_precision", "exponent_bits = 8 : si32, mantissa_bits = 7 : si32", [X], [(X.shape, "f32")])
    assert_array_equal(got[0], X.astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize(("philox", "algorithm"), [("false", "THREE_FRY"), ("true", "PHILOX")])
def test_random_words_are_those_of_the_algorithm(philox: str, algorithm: str) -> None:
    state = np.array([[1, 2], [3, 4]], np.uint32)
    results = [((2, 2), "ui32"), ((5, 8), "ui32")]
    got = run_op("ttnn.rng_bit_generator", f"philox = {philox}", [state], results)
    chosen = getattr(lax.RandomAlgorithm, f"RNG_{algorithm}")
    after, words = lax.rng_bit_generator(state.view(np.uint32).ravel(), (5, 8), np.uint32, chosen)
    assert_array_equal(got[1], np.asarray(words))
    assert_array_equal(got[0].ravel(), np.asarray(after))


def test_a_select_of_float16_keeps_its_bits() -> None:
    condition = (X > 0).astype(ml_dtypes.bfloat16)
    a, b = X.astype(np.float16), (X * 3).astype(np.float16)
    assert_array_equal(run_op("ttnn.where", "", [condition, a, b], [(X.shape, "f16")])[0], np.where(X > 0, a, b))
