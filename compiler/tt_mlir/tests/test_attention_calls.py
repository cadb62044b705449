"""Rows of the table for what tt-mlir's fusions emit: results on the simulator against the formula in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from opscope.compiler.errors import StageFailure
from opscope.compiler.tt_mlir.tests.ttnn_text import CONFIG, function, kind, module, run_op, run_text

RANDOM = np.random.default_rng(62)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def turned(x: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> np.ndarray:
    first, second = np.split(x, 2, -1)
    return x * cosine + np.concatenate([-second, first], -1) * sine


X, COSINE, SINE = normal(2, 3, 5, 8), normal(1, 1, 9, 8), normal(1, 1, 9, 8)


def test_rotary_positions_take_their_own_rows_and_no_others() -> None:
    (got,) = run_op("ttnn.rotary_embedding", CONFIG, [X, COSINE, SINE], [(X.shape, "f32")])
    assert_allclose(got, turned(X, COSINE[:, :, :5], SINE[:, :, :5]), rtol=1e-5, atol=1e-6)
    # tt-mlir#8336: tables of one position are not repeated; what fills their tile up is read.
    (got,) = run_op("ttnn.rotary_embedding", CONFIG, [X, COSINE[:, :, :1], SINE[:, :, :1]], [(X.shape, "f32")])
    assert_allclose(got[:, :, :1], turned(X[:, :, :1], COSINE[:, :, :1], SINE[:, :, :1]), rtol=1e-5, atol=1e-6)
    assert_array_equal(got[:, :, 1:], 0)
    (got,) = run_op("ttnn.rotary_embedding", CONFIG, [X[:, :, :1], COSINE, SINE], [((2, 3, 32, 8), "f32")])
    assert_allclose(got[:, :, :1], turned(X[:, :, :1], COSINE[:, :, :1], SINE[:, :, :1]), rtol=1e-5, atol=1e-6)


def test_one_token_turns_by_its_row() -> None:
    attributes = f"{CONFIG}, token_index = 4 : ui32"
    (got,) = run_op("ttnn.rotary_embedding", attributes, [X, COSINE, SINE], [(X.shape, "f32")])
    assert_allclose(got, turned(X, COSINE[:, :, 4:5], SINE[:, :, 4:5]), rtol=1e-5, atol=1e-6)


def test_rotary_tables_that_are_broadcast_over_heads_are_refused() -> None:
    with pytest.raises(StageFailure, match="expected tables of"):
        run_op("ttnn.rotary_embedding", CONFIG, [X, np.repeat(COSINE, 3, 1), SINE], [(X.shape, "f32")])


def test_heads_are_split_in_the_order_of_query_key_value() -> None:
    x = normal(2, 5, 8 * 4)
    attributes = "num_heads = 4 : ui32, num_kv_heads = 2 : ui32, transpose_key = true"
    results = [((2, 4, 5, 4), "f32"), ((2, 2, 4, 5), "f32"), ((2, 2, 5, 4), "f32")]
    query, key, value = run_op("ttnn.split_query_key_value_and_split_heads", attributes, [x], results)
    heads = x.reshape(2, 5, 8, 4).swapaxes(1, 2)
    assert_array_equal(query, heads[:, :4])
    assert_array_equal(key, heads[:, 4:6].swapaxes(2, 3))
    assert_array_equal(value, heads[:, 6:])


def test_heads_of_one_position_are_split_and_joined() -> None:
    x = normal(1, 1, 3, 8 * 4)
    results = [((1, 3, count, 4), "f32") for count in (4, 2, 2)]
    attributes = "num_heads = 4 : ui32, num_kv_heads = 2 : ui32"
    query, key, value = run_op("ttnn.nlp_create_qkv_heads_decode", attributes, [x], results)
    assert_array_equal(np.concatenate([query, key, value], 2), x.reshape(1, 3, 8, 4))
    (got,) = run_op(
        "ttnn.nlp_concat_heads_decode", "num_heads = 4 : ui32", [normal(1, 3, 32, 4)], [((1, 1, 3, 16), "f32")]
    )
    assert got.shape == (1, 1, 3, 16)
    (got,) = run_op("ttnn.concatenate_heads", "", [X], [((2, 5, 24), "f32")])
    assert_array_equal(got, X.swapaxes(1, 2).reshape(2, 5, 24))


def attended(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    seen: np.ndarray,
    scale: float,
    sink: np.ndarray | None = None,
) -> np.ndarray:
    key, value = (np.repeat(x, query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = np.where(seen, query @ key.swapaxes(2, 3) * scale, -np.inf)
    raised = np.exp(scores)
    total = raised.sum(-1, keepdims=True)
    return raised / (total if sink is None else total + np.exp(sink[:, None, None] * scale)) @ value


@pytest.mark.parametrize("causal", [True, False])
def test_attention_of_a_sequence(causal: bool) -> None:
    query, key, value = normal(2, 4, 5, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 8)
    attributes = f"is_causal = {str(causal).lower()}, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>"
    (got,) = run_op("ttnn.scaled_dot_product_attention", attributes, [query, key, value], [(query.shape, "f32")])
    seen = np.tri(5, dtype=bool) if causal else np.ones((5, 5), bool)
    assert_allclose(got, attended(query, key, value, seen, 8**-0.5), rtol=0.03, atol=0.03)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_sees_a_window_and_a_sink_takes_its_share(causal: bool) -> None:
    """A sink is scaled as the scores are: tt-mlir divides it by the scale before."""
    query, key, value, sink = normal(2, 4, 9, 8), normal(2, 2, 9, 8), normal(2, 2, 9, 8), normal(1, 4, 1, 1)
    attributes = f"is_causal = {str(causal).lower()}, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>"
    attributes += ", sliding_window_size = 3 : ui32, scale = 0.7 : f32"
    inputs = [query, key, value, sink]
    (got,) = run_op("ttnn.scaled_dot_product_attention", attributes, inputs, [(query.shape, "f32")])
    behind = np.arange(9)[:, None] - np.arange(9)
    seen = (behind >= 0) & (behind < 3) if causal else np.abs(behind) <= 1
    assert_allclose(got, attended(query, key, value, seen, 0.7, sink.ravel()), rtol=0.03, atol=0.03)


def test_one_position_sees_a_window_and_a_sink_takes_its_share() -> None:
    query, key, value, last = normal(1, 2, 4, 8), normal(2, 2, 9, 8), normal(2, 2, 9, 8), np.array([2, 7], np.int32)
    sink = np.broadcast_to(normal(32, 1), (32, 32)).copy()  # heads in a whole tile
    attributes = "is_causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1>, scale = 0.5 : f32"
    attributes += ", sliding_window_size = 4 : ui32"
    inputs = [query, key, value, last, sink]
    (got,) = run_op("ttnn.scaled_dot_product_attention_decode", attributes, inputs, [(query.shape, "f32")])
    places = np.arange(9)
    seen = ((places <= last[:, None]) & (places > last[:, None] - 4))[:, None, None]
    want = attended(query.transpose(1, 2, 0, 3), key, value, seen, 0.5, sink[:4, 0]).transpose(2, 0, 1, 3)
    assert_allclose(got, want, rtol=0.03, atol=0.03)


def test_attention_of_one_position_up_to_its_own() -> None:
    query, key, value, last = normal(1, 2, 4, 8), normal(2, 2, 6, 8), normal(2, 2, 6, 8), np.array([1, 4], np.int32)
    attributes = "is_causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0>, scale = 0.5 : f32"
    name = "ttnn.scaled_dot_product_attention_decode"
    (got,) = run_op(name, attributes, [query, key, value, last], [(query.shape, "f32")])
    seen = (np.arange(6) <= last[:, None])[:, None, None]
    want = attended(query.transpose(1, 2, 0, 3), key, value, seen, 0.5).transpose(2, 0, 1, 3)
    assert_allclose(got, want, rtol=0.03, atol=0.03)
    wrong = attributes.replace("1, 1, 1, 0, 1, 0>", "1, 1, 1, 1, 0, 0>")
    with pytest.raises(StageFailure, match="expected positions and no mask"):
        run_op(name, wrong, [query, key, value, last], [(query.shape, "f32")])


def written(line: str, arrays: Sequence[np.ndarray], words: Sequence[str]) -> np.ndarray:
    kinds = [kind(array.shape, word) for array, word in zip(arrays, words, strict=True)]
    body = f"{line} : ({', '.join(kinds)}) -> ()"
    (got,) = run_text(module(function("main", body, kinds, kinds[:1], "%arg0")), arrays)
    return got


def test_who_reads_a_cache_later_reads_what_was_written() -> None:
    cache, new = normal(3, 2, 6, 4), normal(1, 2, 3, 4)
    line = '"ttnn.update_cache"(%arg0, %arg1, %arg2) <{batch_offset = 0 : i32}>'
    got = written(line, [cache, new, np.array([4], np.int32)], ["f32", "f32", "si32"])
    want = cache.copy()
    want[:, :, 4] = new[0].swapaxes(0, 1)
    assert_array_equal(got, want)
    line = '"ttnn.fill_cache"(%arg0, %arg1) <{batch_offset = 1 : i32}>'
    got = written(line, [cache, normal(1, 2, 5, 4)], ["f32", "f32"])
    assert_array_equal(got[[0, 2]], cache[[0, 2]])
    assert (got[1, :, :5] != cache[1, :, :5]).all()


def test_elements_and_pixels_are_repeated_one_by_one() -> None:
    (got,) = run_op("ttnn.repeat_interleave", "dim = 1 : si32, repeats = 3 : ui32", [X], [((2, 9, 5, 8), "f32")])
    assert_array_equal(got, np.repeat(X, 3, 1))
    attributes = 'mode = "nearest", scale_factor = array<i32: 2, 3>'
    (got,) = run_op("ttnn.upsample", attributes, [X], [((2, 6, 15, 8), "f32")])
    assert_array_equal(got, np.repeat(np.repeat(X, 2, 1), 3, 2))


def test_mish_and_a_bias() -> None:
    (got,) = run_op("ttnn.mish", CONFIG, [X], [(X.shape, "f32")])
    assert_allclose(got, X * np.tanh(np.log1p(np.exp(X))), rtol=1e-5, atol=1e-5)
    (got,) = run_op("ttnn.prepare_conv2d_bias", "groups = 1 : i32", [normal(1, 1, 1, 8)], [((1, 1, 1, 8), "f32")])
    assert got.shape == (1, 1, 1, 8)


def test_a_group_norm_of_channels() -> None:
    x, weight, bias = normal(2, 1, 6, 8), normal(1, 1, 1, 8), normal(1, 1, 1, 8)
    attributes = f"{CONFIG}, epsilon = 1.0e-3 : f32, num_groups = 2 : i64, operandSegmentSizes = array<i32: 1, 0, 1, 1>"
    (got,) = run_op("ttnn.group_norm", attributes, [x, weight, bias], [(x.shape, "f32")])
    groups = x.reshape(2, 6, 2, 4)
    centred = groups - groups.mean((1, 3), keepdims=True)
    want = centred / np.sqrt((centred**2).mean((1, 3), keepdims=True) + 1e-3)
    assert_allclose(got, want.reshape(x.shape) * weight + bias, rtol=1e-3, atol=1e-3)
