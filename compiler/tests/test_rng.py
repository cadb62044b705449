"""`stablehlo.rng`: no value is the right one, so the distribution is held to its own function."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.tests import programs


def drawn(kind: str, low: str, high: str, element: str = "f32", count: int = 20_000) -> np.ndarray:
    body = f"""%a = stablehlo.constant dense<{low}> : tensor<{element}>
      %b = stablehlo.constant dense<{high}> : tensor<{element}>
      %s = stablehlo.constant dense<[4, {count // 4}]> : tensor<2xi64>
      %0 = "stablehlo.rng"(%a, %b, %s) {{rng_distribution = #stablehlo<rng_distribution {kind}>}}
        : (tensor<{element}>, tensor<{element}>, tensor<2xi64>) -> tensor<4x{count // 4}x{element}>
      %1 = "stablehlo.rng"(%a, %b, %s) {{rng_distribution = #stablehlo<rng_distribution {kind}>}}
        : (tensor<{element}>, tensor<{element}>, tensor<2xi64>) -> tensor<4x{count // 4}x{element}>
      return %0, %1 : tensor<4x{count // 4}x{element}>, tensor<4x{count // 4}x{element}>"""
    result = f"tensor<4x{count // 4}x{element}>"
    first, second = programs.simulate(programs.module(body, f"() -> ({result}, {result})"))
    again, _ = programs.simulate(programs.module(body, f"() -> ({result}, {result})"))
    np.testing.assert_array_equal(first, again)
    assert np.mean(first == second) < 0.2, "two ops of a module differ"
    return first.ravel()


def distance(values: np.ndarray, cumulative: np.ndarray) -> float:
    """Kolmogorov and Smirnov's: the largest difference between the two distribution functions."""
    steps = np.arange(1, values.size + 1) / values.size
    return float(np.abs(cumulative[np.argsort(values)] - steps).max())


def test_uniform_floats() -> None:
    values = drawn("UNIFORM", "-2.0", "6.0").astype(np.float64)
    assert values.min() >= -2
    assert values.max() < 6
    assert distance(values, (values + 2) / 8) < 1.63 / math.sqrt(values.size)  # one in a hundred would be above


def test_normal_floats() -> None:
    values = drawn("NORMAL", "1.0", "3.0").astype(np.float64)
    cumulative = np.array([0.5 * (1 + math.erf((v - 1) / (3 * math.sqrt(2)))) for v in values])
    assert distance(values, cumulative) < 1.63 / math.sqrt(values.size)


def test_a_normal_float_is_drawn_from_the_middle_of_its_interval() -> None:
    """Of the same bits, a uniform float has the start of one of 2^23 intervals; it shows where they are rarest."""
    uniform, normal = (drawn(kind, "0.0", "1.0").astype(np.float64) for kind in ("UNIFORM", "NORMAL"))
    for at in (uniform.argmin(), uniform.argmax()):
        middle = uniform[at] + 2**-24
        assert abs(normal[at] - NormalDist().inv_cdf(middle)) < 2e-4
        assert abs(NormalDist().inv_cdf(middle + 2**-23) - NormalDist().inv_cdf(middle)) > 3e-4


@pytest.mark.parametrize(("element", "low", "high"), [("i32", -3, 5), ("ui32", 0, 10), ("i8", -100, 100)])
def test_uniform_integers(element: str, low: int, high: int) -> None:
    values = drawn("UNIFORM", str(low), str(high), element).astype(np.int64)
    counts = np.bincount(values - low, minlength=high - low)
    assert (values.min(), values.max()) == (low, high - 1)
    expected = values.size / (high - low)
    squares = float(((counts - expected) ** 2 / expected).sum())
    free = high - low - 1
    assert squares < free + 4 * math.sqrt(2 * free)


def test_an_unsupported_distribution_is_refused() -> None:
    with pytest.raises(api.StageFailure, match="expected integers of 8, 16 or 32 bits"):
        drawn("UNIFORM", "0", "5", "i64", 40)
