"""A variance over N - 1 in place of N is wrong also where the mean is far above the deviation, and no honest one is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from opscope import judge

SHAPES = ((8, 64), (64, 256), (4, 16))
MEANS = (0, 10, 100, 1000, 10_000)
MISTAKE = "N - 1"


def norm(x: np.ndarray, axis: int, fewer: int, one_pass: bool, kind: type) -> list[np.ndarray]:
    """A norm along an axis in steps of a type, its mean and its variance."""
    x = x.astype(kind)
    count, mean = kind(x.shape[axis]), x.mean(axis=axis, keepdims=True, dtype=kind)
    if one_pass:
        variance = np.maximum(np.square(x).mean(axis=axis, keepdims=True, dtype=kind) - mean * mean, 0)
    else:
        variance = np.square(x - mean).mean(axis=axis, keepdims=True, dtype=kind)
    variance = variance * count / kind(count - fewer)
    return [each.astype(np.float32) for each in ((x - mean) / np.sqrt(variance + kind(1e-5)), mean, variance)]


def draws(seed: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    for mean in MEANS:
        for shape in SHAPES:
            yield (mean + rng.standard_normal(shape)).astype(np.float32)


def of_rows(x: np.ndarray, fewer: int, one_pass: bool, kind: type) -> dict[str, object]:
    """What the judge says of a norm of rows, by the name of the op; channels are rows too."""
    y, mean, variance = norm(x, 1, fewer, one_pass, kind)
    weights = [np.ones(x.shape[0], np.float32), np.zeros(x.shape[0], np.float32)]
    trained = [y.T, mean.ravel(), variance.ravel()]
    return {
        "layer_norm": judge("layer_norm", x, y),
        "group_norm": judge("group_norm", x[:, :, None], y[:, :, None]),
        "var": judge("var(axis=1)", x, variance.ravel()),
        "batch_norm_training": judge("batch_norm_training", [np.ascontiguousarray(x.T), *weights], trained),
    }


@pytest.mark.parametrize("one_pass", [False, True])
def test_a_variance_over_one_value_fewer_is_wrong_at_any_mean(one_pass: bool) -> None:
    for x in draws(1):
        for name, verdict in of_rows(x, 1, one_pass, np.float64).items():
            assert verdict.answer == "wrong", (name, x.shape, float(x.mean()))


@pytest.mark.crossed
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("one_pass", [False, True])
def test_no_honest_variance_is_taken_for_one(one_pass: bool, kind: type) -> None:
    for seed in range(3):
        for x in draws(seed):
            for name, verdict in of_rows(x, 0, one_pass, kind).items():
                assert MISTAKE not in verdict.reason, (name, x.shape, float(x.mean()), verdict.reason)
                if not one_pass:
                    assert verdict.answer == "right", (name, x.shape, float(x.mean()), verdict.reason)


def test_it_is_told_by_its_reason_where_the_bound_grants_it() -> None:
    x = (1000 + np.random.default_rng(0).standard_normal((64, 256))).astype(np.float32)
    verdict = of_rows(x, 1, False, np.float32)["batch_norm_training"]
    assert MISTAKE in verdict.reason
    assert "64 groups" in verdict.reason


def test_equal_rows_and_rows_without_a_variance_are_no_mistake() -> None:
    row = (1000 + np.random.default_rng(0).standard_normal(64)).astype(np.float32)
    for x in (np.tile(row, (32, 1)), np.full((32, 64), 7, np.float32)):
        for name, verdict in of_rows(x, 0, False, np.float32).items():
            assert MISTAKE not in verdict.reason, name
