"""What a netlist's ops compute, against plain loops and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, special

from opscope.compiler.buda.test_config.comparison import Comparison, correlations, differences
from opscope.compiler.buda.test_config.golden import operand, tm
from opscope.compiler.buda.test_config.golden_ops import UNARY, clear, result
from opscope.compiler.buda.test_config.number_formats import packed, rounded
from opscope.compiler.buda.test_config.rows import NotModelledError

DRAW = np.random.default_rng(5)
FLOATS: dict[str, Any] = {"in_df": ["Float16"] * 4, "grid_size": [1, 1]}


def drawn(*shape: int) -> np.ndarray:
    return DRAW.uniform(-1, 1, shape)


def test_a_bias_is_the_first_row_of_each_tile_but_of_integers_all_of_it() -> None:
    left, right, bias = drawn(1, 64, 32), drawn(1, 32, 32), drawn(1, 64, 32)
    value = result("matmul", {"bias": True}, [left, right, bias], FLOATS)
    for row in (0, 31, 32, 63):
        np.testing.assert_allclose(value[0, row], left[0, row] @ right[0] + bias[0, row // 32 * 32])
    whole = result("matmul", {"bias": True}, [left, right, bias], {"in_df": ["Int8", "Int8", "Int32"]})
    np.testing.assert_allclose(whole, left @ right + bias)


def test_products_of_z_matrices_are_added_up() -> None:
    left, right = drawn(6, 32, 64), drawn(6, 64, 32)
    value = result("matmul", {"accumulate": True, "z": 3}, [left, right], FLOATS)
    np.testing.assert_allclose(value[1], sum(left[z] @ right[z] for z in (3, 4, 5)))


def test_a_depthwise_product_adds_up_blocks_of_columns() -> None:
    left, right = drawn(2, 32, 3 * 64), drawn(2, 96, 64)
    value = result("depthwise", {"m_k": 3}, [left, right], FLOATS)
    for z, column in ((0, 0), (1, 1)):
        wanted = sum(
            left[z, :, block * 64 + column * 32 : block * 64 + column * 32 + 32]
            @ right[z, block * 32 : block * 32 + 32, column * 32 : column * 32 + 32]
            for block in range(3)
        )
        np.testing.assert_allclose(value[z, :, column * 32 : column * 32 + 32], wanted)


def test_scales_have_a_zero_point() -> None:
    whole, scale = np.rint(drawn(1, 32, 32) * 100), drawn(1, 32, 32)
    np.testing.assert_allclose(result("requantization", {"zero_point": 3}, [whole, scale], FLOATS), whole * scale + 3)
    np.testing.assert_allclose(result("dequantization", {"zero_point": 3}, [whole, scale], FLOATS), (whole - 3) * scale)


def test_relu_modes() -> None:
    x = np.array([[[-2.0, 0.5, 1.0, 3.0]]])
    on = {"relu_en": True, "relu_threshold": 1.0}
    assert result("nop", {**on, "relu_mode": "max"}, [x], FLOATS).tolist() == [[[0.0, 0.5, 1.0, 1.0]]]
    assert result("nop", {**on, "relu_mode": "min"}, [x], FLOATS).tolist() == [[[0.0, 0.0, 1.0, 3.0]]]


def test_the_slope_of_gelu_is_its_derivative() -> None:
    x = np.linspace(-4, 4, 9)
    slope = [integrate.quad(lambda t: np.exp(-t * t / 2), -np.inf, v)[0] / np.sqrt(2 * np.pi) for v in x]
    np.testing.assert_allclose(UNARY["gelu_derivative"](x), slope + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi))
    np.testing.assert_allclose(UNARY["gelu"](x), x * special.ndtr(x))


def test_the_back_ends_own_rules_at_the_edges() -> None:
    assert result("reciprocal", {}, [np.zeros((1, 32, 32))], FLOATS)[0, 0, 0] == 2.0**23
    assert np.isfinite(result("log", {}, [np.zeros((1, 32, 32))], FLOATS)).all()
    with np.errstate(invalid="ignore"):
        assert result("multiply", {}, [np.full((1, 1, 1), np.inf), np.zeros((1, 1, 1))], FLOATS)[0, 0, 0] == 0


def test_a_splice_takes_blocks_in_turn() -> None:
    one, two = (np.arange(4)[:, None, None] + base + np.zeros((4, 32, 32)) for base in (0, 10))
    rules = {"granularity": "t", "input0": [0, 1, 2], "input1": [1, 1, 1]}
    value = result("splice", rules, [one, two], {**FLOATS, "t": 4})
    assert value[:, 0, 0].tolist() == [0, 11, 2, 13]


def test_tops_and_embeddings() -> None:
    x = drawn(1, 32, 64)
    top = result("topk", {"k": 4, "sort": "max"}, [x, x], FLOATS)
    np.testing.assert_array_equal(top[0, :, :4], -np.sort(-x[0], axis=1)[:, :4])
    assert not top[0, :, 4:].any()
    table, numbers = drawn(1, 64, 32), np.zeros((1, 32, 32))
    numbers[0, 0] = np.arange(32)[::-1]
    value = result("embedding", {"num_indices": 32}, [table, numbers], FLOATS)
    np.testing.assert_array_equal(value[0], table[0, 31::-1])


def test_what_is_not_known_is_named() -> None:
    with pytest.raises(NotModelledError, match="op wobble"):
        result("wobble", {}, [drawn(1, 32, 32)], FLOATS)


def test_formats_of_few_bits() -> None:
    x = np.array([[[1.0, 0.4, -0.6, 0.1, *[0.0] * 12]]])
    assert rounded(x, "Bfp4_b")[0, 0, :4].tolist() == [1.0, 0.5, -0.5, 0.0]
    assert packed(x, "Bfp4_b")[0, 0, :4].tolist() == [1.0, 0.25, -0.5, 0.0]
    assert packed(x, "Bfp8_b") is x
    assert packed(np.array([[[200.0, -300.0, 1.5, -2.5]]]), "Int8")[0, 0].tolist() == [127.0, -127.0, 2.0, -3.0]
    assert clear(np.ones((1, 64, 32)), (16, 32)).sum() == 2 * 16 * 32


def test_maxima_along_each_dim() -> None:
    x = drawn(4, 64, 96)
    of = {"r": x.max(axis=1), "c": x.max(axis=2)}
    rows, cols = (result("reduce", {"dim": dim}, [x], FLOATS) for dim in "rc")
    assert (rows.shape, cols.shape) == ((4, 32, 96), (4, 64, 32))
    np.testing.assert_array_equal(rows[:, 0], of["r"])
    np.testing.assert_array_equal(cols[:, :, 0], of["c"])
    assert np.count_nonzero(rows) + np.count_nonzero(cols) == of["r"].size + of["c"].size
    np.testing.assert_array_equal(result("reduce", {"dim": "z"}, [x], FLOATS), x.max(axis=0)[None])
    np.testing.assert_array_equal(result("reduce", {"dim": "z", "z": 2}, [x], FLOATS)[1], x[2:].max(axis=0))
    with pytest.raises(NotModelledError, match="reduce of type sum"):
        result("reduce", {"dim": "r", "type": "sum"}, [x], FLOATS)


def test_a_vector_op_computes_the_first_rows_or_columns_of_each_tile() -> None:
    x = drawn(1, 64, 64)
    rows, cols = (result("exp", {"vector": part}, [x], FLOATS) for part in "rc")
    at = np.arange(64) % 32
    np.testing.assert_array_equal(rows[0, at < 4], np.exp(x[0, at < 4]))
    np.testing.assert_array_equal(rows[0, at >= 4], x[0, at >= 4])
    np.testing.assert_array_equal(cols[0][:, at < 16], np.exp(x[0][:, at < 16]))
    np.testing.assert_array_equal(cols[0][:, at >= 16], x[0][:, at >= 16])
    np.testing.assert_array_equal(result("add", {"vector": "r"}, [x, x], FLOATS), x + x)
    np.testing.assert_array_equal(result("exp", {"vector": "rc"}, [x], FLOATS), np.exp(x))


def test_ops_with_numbers() -> None:
    x = np.array([[[-2.0, -0.0, 0.5, 3.0]]])
    assert result("lrelu", {"slope": 0.25}, [x], FLOATS).tolist() == [[[-0.5, 0.0, 0.5, 3.0]]]
    assert result("power", {"exp": 3}, [x], FLOATS).tolist() == [[[-8.0, 0.0, 0.125, 27.0]]]
    assert result("quantization", {}, [x, 2 * np.ones_like(x)], FLOATS).tolist() == [[[-4.0, 0.0, 1.0, 6.0]]]
    assert result("nop", {"relu_en": True}, [x], FLOATS).tolist() == [[[0.0, 0.0, 0.5, 3.0]]]
    with np.errstate(over="ignore"):
        assert result("exp", {}, [np.array([[[1e3]]])], FLOATS)[0, 0, 0] == np.finfo(np.float32).max
    zero = np.log(2.0**-23)
    assert result("log", {}, [np.zeros((1, 1, 1))], FLOATS)[0, 0, 0] == zero
    two = np.array([[[1.0, 2.0, 3.0, 0.0]]])
    with np.errstate(invalid="ignore"):
        product = result("multiply", {}, [two, np.array([[[0.0, 2.0, np.inf, np.inf]]])], FLOATS)
    assert product.tolist() == [[[0.0, 4.0, np.inf, 0.0]]]


def test_a_product_is_scaled_after_its_bias_and_before_gelu() -> None:
    left, right, bias, scale = drawn(2, 32, 32), drawn(2, 32, 32), drawn(2, 32, 32), drawn(2, 32, 32)
    whole = {"in_df": ["Int8", "Int8", "Int32", "Float32"]}
    plain = left @ right + bias
    again = {"bias": True, "zero_point": 3}
    value = result("matmul", {**again, "requant": True}, [left, right, bias, scale], whole)
    np.testing.assert_allclose(value, plain * scale + 3)
    value = result("matmul", {**again, "dequant": True}, [left, right, bias, scale], whole)
    np.testing.assert_allclose(value, (plain - 3) * scale)
    value = result("matmul", {"dequant": True}, [left, right, scale], FLOATS)
    np.testing.assert_allclose(value, left @ right * scale)
    value = result("matmul", {"sfpu_op": "gelu", "accumulate": True}, [left, right], FLOATS)
    summed = (left[0] @ right[0] + left[1] @ right[1])[None]
    np.testing.assert_allclose(value, summed * special.ndtr(summed))
    kernel = drawn(2, 64, 32)
    value = result("depthwise", {"m_k": 1, "bias": True}, [left, kernel, bias], FLOATS)
    np.testing.assert_allclose(value, left @ kernel[:, :32] + bias[:, :1])


def test_a_splice_of_micro_blocks_core_by_core() -> None:
    """Tiles are numbered; each of 1x2 cores takes blocks of 2x1 tiles, row by row or column by column."""

    def tiles(rows: int, cols: int, base: int) -> np.ndarray:
        return np.kron(np.arange(base, base + rows * cols).reshape(1, rows, cols), np.ones((32, 32)))

    one, two = tiles(4, 4, 0), tiles(4, 2, 100)
    rules = {"input0": [1, 1, 1], "input1": [0, 1, 0]}
    row = {**FLOATS, "grid_size": [1, 2], "mblock": [2, 1], "ublock": [2, 1], "t": 1}
    by_rows = result("splice", rules, [one, two], row)[0, ::32, ::32]
    # The left core's blocks of `one` are 0|4, 1|5, 8|12, 9|13; of the first two, the second is taken.
    assert by_rows.tolist() == [[1, 3], [5, 7], [100, 101], [102, 103]]
    by_columns = result("splice", rules, [one, two], {**row, "ublock_order": "c"})[0, ::32, ::32]
    assert by_columns.tolist() == [[8, 10], [12, 14], [100, 101], [102, 103]]
    more = result("splice", {"input0": [0, 1, 1], "input1": [1, 1, 0]}, [one, two], {**row, "mblock": [1, 3]})
    assert more[0, ::32, ::32].tolist() == [[0, 104, 1, 2, 105, 3], [4, 106, 5, 6, 107, 7]]


def test_tops_and_embeddings_core_by_core() -> None:
    x, numbers = drawn(1, 32, 128), np.broadcast_to(np.arange(128.0), (1, 32, 128))
    row = {"grid_size": [1, 2]}
    places = result("topk", {"k": 33, "sort": "arg"}, [x, numbers], row)
    assert places.shape == (1, 32, 128)
    for core in (0, 1):
        wanted = core * 64 + np.argsort(-x[0, :, core * 64 : core * 64 + 64], axis=1)[:, :33]
        np.testing.assert_array_equal(places[0, :, core * 64 : core * 64 + 33], wanted)
        assert not places[0, :, core * 64 + 33 : core * 64 + 64].any()
    table, indices = drawn(1, 64, 32), np.zeros((1, 64, 32))
    indices[0, 0], indices[0, 1, :2], indices[0, 32] = np.arange(32), (40, 41), np.arange(32)[::-1]
    value = result("embedding", {"num_indices": 34}, [table, indices], {"grid_size": [2, 1]})
    assert value.shape == (1, 128, 32)
    np.testing.assert_array_equal(value[0, :34], table[0, [*range(32), 40, 41]])
    np.testing.assert_array_equal(value[0, 64:98], table[0, [*range(31, -1, -1), 0, 0]])
    assert not value[0, 34:64].any()
    assert not value[0, 98:].any()


def test_each_tm_is_what_numpy_does_piece_by_piece() -> None:
    x = drawn(4, 64, 96)
    for name, argument, wanted in (
        ("broadcast", {"z": 2, "c": 3}, np.concatenate([np.concatenate([x] * 3, 2)] * 2, 0)),
        ("broadcast", {"r": 2}, np.concatenate([x, x], 1)),
        ("hslice", 3, np.stack([x[z][:, c : c + 32] for z in range(4) for c in (0, 32, 64)])),
        ("vslice", 2, np.stack([x[z][r : r + 32] for z in range(4) for r in (0, 32)])),
        ("hstack", 2, np.stack([np.hstack([x[0], x[1]]), np.hstack([x[2], x[3]])])),
        ("vstack", 2, np.stack([np.vstack([x[0], x[1]]), np.vstack([x[2], x[3]])])),
        ("transpose", None, np.stack([matrix.T for matrix in x])),
        ("tile_broadcast", "r", x[:, np.arange(64) // 32 * 32]),
        ("tile_broadcast", "c", x[:, :, np.arange(96) // 32 * 32]),
        ("pad", {"rt": 1, "ct": 2, "value": 2.5}, np.pad(x, [(0, 0), (0, 32), (0, 64)], constant_values=2.5)),
        ("buda_pad", [0, 1], np.pad(x, [(0, 0), (0, 0), (0, 32)])),
        ("unpad", [1, 2], x[:, :32, :32]),
        ("buda_unpad", {"rt": 0, "ct": 1}, x[:, :, :64]),
    ):
        np.testing.assert_array_equal(tm(x, name, argument), wanted, err_msg=name)
    with pytest.raises(NotModelledError, match="TM wobble"):
        tm(x, "wobble", 1)
    row = {"input_1_tms": [{"hslice": 3}, "transpose"], "input_1_unpad": [1, 0], "input_1_pad": [1, 0, 7.0]}
    wanted = np.pad(tm(x[:, :32], "hslice", 3).swapaxes(1, 2), [(0, 0), (0, 32), (0, 0)], constant_values=7.0)
    np.testing.assert_array_equal(operand(x, row, 1), wanted)
    np.testing.assert_array_equal(operand(x, row, 0), x)


def test_formats_round_as_they_are_laid_out() -> None:
    x = np.array([[[1.0, 0.3, -0.3, 0.5, 1.99, *[0.0] * 11, 0.3, *[0.0] * 15]]])
    for df, near, cut in (
        ("Bfp8", [1.0, 19 / 64, -19 / 64, 0.5, 127 / 64], [1.0, 19 / 64, -19 / 64, 0.5, 127 / 64]),
        ("Bfp4", [1.0, 0.25, -0.25, 0.5, 1.75], [1.0, 0.25, -0.25, 0.5, 1.75]),
        ("Bfp2", [1.0, 0.0, -0.0, 1.0, 1.0], [1.0, 0.0, -0.0, 0.0, 1.0]),
    ):
        for name in (df, f"{df}_b"):
            for cuts, wanted in ((False, near), (True, cut)):
                value = rounded(x, name, cut=cuts)[0, 0]
                assert value[:5].tolist() == wanted, name
                assert 0.25 <= value[16] <= 0.3125  # sixteen elements share an exponent, the next have another
    tiny, huge = (np.full((1, 1, 16), 2.0**power) for power in (-20, 20))
    # Exponents of five bits: 2^-15 is the least unit of a block's leading bit, so that 2^-20 is 2 of 64 parts of it.
    assert rounded(tiny, "Bfp8")[0, 0, 0] == 2.0**-20
    assert rounded(tiny / 4, "Bfp8")[0, 0, 0] == 2.0**-21
    assert rounded(tiny / 4, "Bfp8_b")[0, 0, 0] == 2.0**-22
    assert (rounded(huge, "Bfp8")[0, 0, 0], rounded(huge, "Bfp8_b")[0, 0, 0]) == (127 * 2.0**10, 2.0**20)
    whole = np.array([0.5, -0.5, 1.49, 3e5, -3e5, 9e9, -9e9])
    for df, wanted in (
        ("Int8", [1, -1, 1, 127, -127, 127, -127]),
        ("UInt8", [1, 0, 1, 255, 0, 255, 0]),
        ("UInt16", [1, 0, 1, 65535, 0, 65535, 0]),
        ("Int32", [1, -1, 1, 3e5, -3e5, 2**31 - 1, -(2**31) + 1]),
        ("UInt32", [1, 0, 1, 3e5, 0, 2**32 - 1, 0]),
    ):
        np.testing.assert_array_equal(rounded(whole, df), wanted, err_msg=df)
    small = np.array([1.0, 1.25, 1.125, 1.375, -1.3, 2.0**16 * 1.9, -(2.0**20), 2.0**-15, 2.0**-16])
    near = [1.0, 1.25, 1.0, 1.5, -1.25, 2.0**16 * 1.75, -(2.0**16) * 1.75, 2.0**-15, 0.0]
    assert rounded(small, "Lf8").tolist() == near
    assert rounded(small, "Lf8", cut=True).tolist() == [*near[:2], 1.0, 1.25, *near[4:]]


def test_correlations_of_constant_tiles() -> None:
    rule = Comparison("AllCloseHw", rtol=0.1, atol=0.0, check_pct=0.0, check_pcc=0.5)
    one = np.ones((1, 1024))
    assert correlations(one, one * 1.1, rule).tolist() == [1.0]
    assert correlations(one, one * 1.2, rule).tolist() == [0.0]
    assert correlations(one, one * 0.8, rule).tolist() == [0.0]
    assert correlations(np.zeros((1, 4)), np.full((1, 4), 0.05), Comparison(atol=0.05, rtol=0)).tolist() == [1.0]
    assert "got 0.00000" in differences(np.ones((1, 32, 32)), np.full((1, 32, 32), 2.0), rule)
    endless = np.array([[np.inf, 1.0, -np.inf, 2.0]])
    assert correlations(endless, endless, rule)[0] == pytest.approx(1.0)
    assert correlations(endless, -endless, rule)[0] == pytest.approx(-1.0)
