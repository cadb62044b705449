"""Values in wrong places are wrong, however close their neighbours are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opscope.harness.backends.reference import Reference
from opscope.harness.record.records import WHOLE_MODEL
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.target import Target

HOST = Target("host", None, "exact")
CARD = Reference().target(ResultOptions(arch="n150"))


def logits(seed):
    rng = np.random.default_rng(seed)
    return (10 + 1e-3 * rng.standard_normal((4, 1000))).astype(np.float32)


def ramp(seed):
    return (1 + 1e-6 * np.arange(4000.0).reshape(4, 1000) + 1e-3 * seed).astype(np.float32)


def noise(golden, relative, seed=0):
    rng = np.random.default_rng(seed)
    return (golden * (1 + relative * rng.standard_normal(golden.shape))).astype(np.float32)


def judged(golden, got, target):
    (check,) = compare([golden], [got], WHOLE_MODEL, target)
    return check


@pytest.mark.parametrize("target", [HOST, CARD])
@pytest.mark.parametrize("seed", range(3))
def test_logits_in_another_order_or_shifted_by_one_are_wrong(seed, target):
    near, slow = logits(seed), ramp(seed)
    order = np.argsort(near, axis=1)
    swapped = near.copy()
    rows = np.arange(4)[:, None]
    swapped[rows, order[:, ::2]], swapped[rows, order[:, 1::2]] = near[rows, order[:, 1::2]], near[rows, order[:, ::2]]
    moved = (near, swapped), (slow, np.roll(slow, 1, axis=1)), (near, np.roll(near, 1, axis=0))
    for golden, got in moved:
        check = judged(golden, got, target)
        assert not check.passed, check


@pytest.mark.parametrize(("target", "relative"), [(HOST, 1e-7), (HOST, 1e-5), (CARD, 1e-3), (CARD, 5e-3)])
def test_honest_errors_are_right_however_close_values_are(target, relative):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        for golden in (
            logits(seed),
            ramp(seed),
            rng.standard_normal((64, 64)).astype(np.float32),
            np.sort(rng.standard_normal(4096)).astype(np.float32),
            np.repeat(rng.standard_normal(64), 64).astype(np.float32),
            rng.integers(0, 9, (64, 64)).astype(np.float32),
            np.exp(-np.arange(256.0)).astype(np.float32),
            np.ones((8, 100), np.float32),
        ):
            if golden.std() < 1e-2 and target is CARD:
                continue  # PCC and slope have their own say there
            check = judged(golden, noise(golden, relative, seed), target)
            assert "place" not in check.reason, (golden, check)
            bias = judged(golden, (golden * (1 - relative)).astype(np.float32), target)
            assert "in its own place" not in bias.reason, (golden, bias)


@pytest.mark.parametrize(("target", "spread"), [(HOST, 3e-5), (CARD, 1e-2)])
def test_values_that_vary_less_than_a_model_may_be_off_are_the_goldens_own(target, spread):
    """Others of their kind, one value everywhere, and the same in another order; errors are right, however large they
    are beside what the golden varies by."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        golden, other = ((10 * (1 + spread * rng.standard_normal((4, 1000)))).astype(np.float32) for _ in range(2))
        for relative in (0.0, 0.1 * spread, spread):
            honest = noise(golden, relative, seed)
            assert judged(golden, honest, target).passed
            assert judged(golden, (honest * (1 - spread / 4)).astype(np.float32), target).passed
        order = rng.permutation(1000)
        for got in (other, np.full_like(golden, 10), golden[:, order], golden[[1, 2, 3, 0]], 20 - golden):
            check = judged(golden, got, target)
            assert not check.passed, check
    coarse = replace(CARD, float_format="Bfp8_b")
    near = (10 * (1 + 1e-3 * rng.standard_normal((4, 1000)))).astype(np.float32)
    assert judged(near, np.full_like(near, 10), coarse).passed  # Bfp8 has no other number there
