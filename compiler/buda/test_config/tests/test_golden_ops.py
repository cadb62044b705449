"""What a netlist's ops compute, against plain loops and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, special

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
