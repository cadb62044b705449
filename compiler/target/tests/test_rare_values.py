"""What an array has of denormals, -0, Inf and NaN, held to NumPy's own look at each element."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler.target.rare_values import _BLOCK, has_nan, has_special, has_tiny, once
from opscope.compiler.target.rounding import flush, quantise

DENORMAL, LARGEST_DENORMAL, SMALLEST_NORMAL = 1e-45, 1.17549421e-38, 2.0**-126
SIZES = (0.0, DENORMAL, LARGEST_DENORMAL, SMALLEST_NORMAL, 1.0, 3.4e38, np.inf, np.nan)
VALUES = [float(np.copysign(size, sign)) for sign in (1, -1) for size in SIZES]


def by_element(x: np.ndarray) -> tuple[bool, bool, bool]:
    """Whether there are denormals or -0, infinities or NaN, and NaN."""
    tiny = ((x != 0) & (np.abs(x) < np.float32(SMALLEST_NORMAL))) | ((x == 0) & np.signbit(x))
    return bool(tiny.any()), bool((~np.isfinite(x)).any()), bool(np.isnan(x).any())


@pytest.mark.parametrize("around", [[], [1.5, -1.5], [0.0, 2.0], [0.0, -np.inf]])
def test_one_value_is_found(around: list[float]) -> None:
    for value in VALUES:
        x = np.float32([*around, value, *around])
        pattern = x.view(np.uint32)
        assert (has_tiny(pattern), has_special(pattern), has_nan(pattern)) == by_element(x), value


def test_one_among_many_zeros_is_found() -> None:
    x = np.zeros(2 * _BLOCK + 5, np.float32)
    assert flush(x) is x
    x[-1] = DENORMAL
    assert has_tiny(x.view(np.uint32))
    assert not flush(x).any()


def test_scalars_and_nothing_are_rounded_too() -> None:
    assert quantise(np.float32(np.nan), "Float16_b") == np.inf
    assert not np.signbit(quantise(np.float32(-0.0), "Float16_b"))
    assert quantise(np.zeros((0, 3), np.float32), "Float16_b").shape == (0, 3)
    assert flush(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_what_repeats_is_looked_at_once_and_keeps_its_shape() -> None:
    repeated = np.broadcast_to(np.float32([[1e-40], [2]]), (2, 1000))
    assert once(repeated).shape == (2, 1)
    flushed = flush(repeated)
    assert flushed.shape == (2, 1000)
    assert flushed[0].max() == 0
    assert flushed[1].min() == 2
    clean = np.broadcast_to(np.float32(3), (4, 5))
    assert flush(clean) is clean


def test_a_dim_of_size_1_repeats_nothing_whatever_its_stride() -> None:
    batch = np.lib.stride_tricks.as_strided(np.ones((3, 4), np.float32), (1, 3, 4), (0, 16, 4))
    assert once(batch) is batch
