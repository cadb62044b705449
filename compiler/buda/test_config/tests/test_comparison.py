"""Comparisons: each tile alone, NaN and infinity, correlations that cannot be computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opscope.compiler.buda.test_config.comparison import Comparison, constant_tiles, differences, stable_difference
from opscope.compiler.buda.test_config.config import read_comparison
from opscope.compiler.errors import CompilerInputError

RULE = Comparison("AllCloseHw", rtol=0.15, atol=0.01, check_pct=0.8, check_pcc=0.99)
DRAW = np.random.default_rng(3)
GOLDEN = DRAW.uniform(-1, 1, (2, 64, 96))


def test_one_wrong_tile_of_many_fails() -> None:
    assert differences(GOLDEN, GOLDEN * 1.01, RULE) == ""
    wrong = GOLDEN.copy()
    wrong[1, 32:, 64:] = 0.0
    assert differences(GOLDEN, wrong, RULE).startswith("1 of 12 tiles, first z 1, row 1, column 2: expected 0.8 of the")
    # A fifth of a tile's elements may be off, and no more.
    off = GOLDEN.copy()
    off[0, :6, :32] += 1.0
    assert differences(GOLDEN, off, replace(RULE, check_pcc=0)) == ""
    off[0, 6, :32] += 1.0
    assert "expected 0.8 of the elements close, got 0.7" in differences(GOLDEN, off, replace(RULE, check_pcc=0))


def test_a_correlation_is_numpys() -> None:
    seen = GOLDEN + DRAW.normal(0, 0.2, GOLDEN.shape)
    loose = replace(RULE, check_pct=0.0)
    wanted = min(
        np.corrcoef(GOLDEN[z, r : r + 32, c : c + 32].ravel(), seen[z, r : r + 32, c : c + 32].ravel())[0, 1]
        for z in range(2)
        for r in (0, 32)
        for c in (0, 32, 64)
    )
    assert differences(GOLDEN, seen, loose).endswith(f"expected a PCC of 0.99, got {wanted:.5f}")
    assert differences(GOLDEN, seen, replace(loose, check_pcc=wanted - 1e-9)) == ""
    assert differences(GOLDEN, seen, replace(loose, check_pcc=wanted + 1e-9))
    assert differences(GOLDEN, seen, replace(loose, type="AllClose")) == ""


def test_of_tiles_of_one_number_every_element_is_close_in_place_of_a_correlation() -> None:
    ones = np.ones((1, 32, 64))
    ones[0, :, 32:] = np.arange(32)
    ones[0, 0, 0] += 1e-16 * 2
    assert constant_tiles(ones, RULE) == 1
    assert constant_tiles(ones, replace(RULE, check_pcc=0.0)) == constant_tiles(ones, replace(RULE, type="Exact")) == 0
    nearly = ones.copy()
    nearly[0, :7, :9] = 0.99609375  # the next bfloat16 below 1
    assert differences(ones, nearly, RULE) == ""
    nearly[0, 0, 0] = 30  # few enough for the share, but not close
    assert "1 of 2 tiles, first z 0, row 0, column 0: expected a PCC of 0.99" in differences(ones, nearly, RULE)
    ones[0, 0, 0] = 1
    assert "expected a PCC of 0.99, got 0.00000" in differences(nearly, ones, RULE)


def test_nan_is_close_to_nan_alone_and_infinity_to_what_is_as_large() -> None:
    share = replace(RULE, check_pcc=0.0, check_pct=1.0)
    for golden, seen, passes in (
        (np.nan, np.nan, True),
        (np.nan, 0.0, False),
        (0.0, np.nan, False),
        (np.inf, np.inf, True),
        (np.inf, 3e38, True),
        (np.inf, -3e38, False),
        (np.inf, 1e37, False),
        (-np.inf, -np.inf, True),
    ):
        one, two = GOLDEN[:1].copy(), GOLDEN[:1].copy()
        one[0, 5, 6], two[0, 5, 6] = golden, seen
        assert (differences(one, two, share) == "") == passes, (golden, seen)


def test_only_the_rows_and_columns_of_the_rule_count() -> None:
    wrong = GOLDEN.copy()
    wrong.reshape(2, 2, 32, 3, 32)[:, :, 4:, :, :] = 9.0
    assert differences(GOLDEN, wrong, replace(RULE, rows=(1, 4))) == ""
    assert differences(GOLDEN, wrong, replace(RULE, rows=(1, 5), check_pct=1.0))
    assert differences(GOLDEN, wrong.swapaxes(1, 2), RULE).startswith("expected shape (2, 64, 96), got (2, 96, 64)")


@pytest.mark.parametrize("wrong", [0, 1])
def test_exact_is_exact(wrong: int) -> None:
    seen = GOLDEN.copy()
    seen[0, 0, 0] += wrong * 1e-12
    assert bool(differences(GOLDEN, seen, Comparison("Exact"))) == bool(wrong)


@pytest.mark.parametrize("value", [[1, 32], [32, 32], [1, 1], [3, 17]])
def test_a_range_of_rows_names_its_first_and_last(value: list[int]) -> None:
    rule = read_comparison("comparison-config", {"type": "AllClose", "check_tile_rows_range": value})
    assert (rule.rows, rule.cols) == (tuple(value), RULE.cols)


@pytest.mark.parametrize("value", [[0, 5], [6, 5], [1, 33], [1], [1, 2, 3], ["1", 2], [1.0, 2], 5, None])
def test_what_is_no_range_of_columns_is_refused(value: object) -> None:
    with pytest.raises(CompilerInputError, match=r"check_tile_cols_range: expected first and last from 1 to 32"):
        read_comparison("comparison-config", {"type": "AllClose", "check_tile_cols_range": value})


def test_what_rounding_leaves_of_a_rule_is_asked() -> None:
    golden = 1 + 1e-6 * np.arange(1024.0).reshape(1, 32, 32) / 1024
    rounded = golden.astype(np.float16).astype(np.float64)  # close, and of no correlation
    assert "PCC" in differences(golden, rounded, RULE)
    assert not stable_difference(golden, rounded, rounded, RULE)
    assert "elements close" in stable_difference(golden, rounded, 0 * golden, RULE)
    assert "PCC" in stable_difference(golden, golden, rounded, RULE)
    assert not stable_difference(golden, 1e9 * golden, 0 * golden, RULE)
    assert "equal values" in stable_difference(golden, rounded, rounded, Comparison("Exact"))
