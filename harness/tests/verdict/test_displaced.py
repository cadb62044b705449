"""Values in wrong places are wrong, however close their neighbours are."""

from __future__ import annotations

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
