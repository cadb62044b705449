"""The stored StableHLO conformance cases through compiler and simulator, against their expected values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.compiler.tests.conformance import Score, own, per_op, scores, to_markdown

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
DEVICE, NEVER = 884, 21
"""Cases that run without a host op, and that the hardware's formats cannot: a case that leaves its class is news."""


def wrong_cases(all_scores: list[Score]) -> list[str]:
    return [
        f"{score.number} {score.ops}: {score.why}" for score in all_scores if score.kind != "never" and not score.right
    ]


def test_a_sample():
    sample = list(scores(lambda number: number % 60 == 3))
    assert not wrong_cases(sample)
    assert sum(score.kind == "device" for score in sample) > 10
    assert sum(score.kind == "host" for score in sample) > 5


def test_a_sample_at_the_highest_level():
    # Without the case that is a long program: to search for its best plan takes as long as all others together.
    sample = list(scores(lambda number: number % 250 == 3 and number != 503, 2))
    assert len(sample) >= 5
    assert not wrong_cases(sample)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 2])
def test_all_cases(level):
    all_scores = list(scores(level=level))
    wrong = wrong_cases(all_scores)
    assert all(score.right for score in all_scores if score.kind == "device"), wrong
    host = [score for score in all_scores if score.kind == "host"]
    assert sum(score.right for score in host) >= 0.99 * len(host), wrong
    assert sum(score.kind == "device" for score in all_scores) >= DEVICE
    assert sum(score.kind == "never" for score in all_scores) <= NEVER
    for op, counts in per_op(all_scores).items():
        ran = counts["device"] + counts["host"]
        assert counts["device right"] + counts["host right"] >= 0.9 * ran, op
    if not level:
        page = PAGE.read_text(encoding="utf-8")
        own_part = page.partition("\n## The node tests of ONNX")[0]
        assert own_part == to_markdown(all_scores), "expected the current page; try `make conformance`"


def test_a_case_is_judged_by_its_own_check():
    one = np.array([1.0, np.nan, np.inf, 0.0], np.float32)
    assert not own(one, one, "expect_close", {"max_ulp_difference": 3})
    assert own(np.nextafter(one, 2), one, "expect_close", {"max_ulp_difference": 0})
    assert own(np.nan_to_num(one), one, "expect_close", {})
    assert own(-one, one, "expect_almost_eq", {"tolerance": 1e-3})
    assert own(one.astype(np.float64), one, "expect_almost_eq", {})
    assert own(np.array([1, 2]), np.array([1, 3]), "expect_close", {})
    assert not own(np.array([1 + 1j]), np.array([1 + 1j]), "expect_close", {})
    assert own(np.array([1 + 1j]), np.array([1 - 1j]), "expect_close", {})
