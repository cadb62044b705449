"""Rules from points: the hidden predicate is found again from few questions, and nothing is said that was not asked."""

from __future__ import annotations

import random

import pytest

from opscope.base.tests.each import each
from opscope.harness.prepare.mlir import attribute_text
from opscope.harness.triage import rules

HIDDEN = {
    "{} % 32 != 0": lambda n: n % 32 != 0,
    "{} % 32 == 0": lambda n: n % 32 == 0,
    "{} % 2 != 0": lambda n: n % 2 != 0,
    "{} >= 4096": lambda n: n >= 4096,
    "{} < 17": lambda n: n < 17,
    "{} > 1": lambda n: n > 1,
    "{} is a power of 2": lambda n: n & (n - 1) == 0,
    "100 <= {} < 300": lambda n: 100 <= n < 300,
    "{} < 5 or {} >= 600": lambda n: n < 5 or n >= 600,
    "{} >= 65 and {} % 8 != 0": lambda n: n >= 65 and n % 8 != 0,
}
START = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 96, 127, 128, 256, 512, 1000, 2048, 5000)


@pytest.mark.parametrize("text", HIDDEN)
def test_the_hidden_rule_is_found(text: str) -> None:
    hidden, asked = HIDDEN[text], []

    def ask(size: int) -> bool:
        asked.append(size)
        return hidden(size)

    points = {size: hidden(size) for size in START}
    rule = rules.settle(points, ask, range(1, 8193), 40)
    assert rule is not None
    assert rule.text == text, points
    assert len(asked) <= 40
    assert not set(asked) & set(START)


def test_sizes_that_cannot_be_tried_are_not_assumed() -> None:
    points = {size: size >= 100 for size in (1, 64, 128)}
    rule = rules.settle(points, lambda size: None, range(1, 200), 10)
    assert rule is not None
    assert rule.text == "{} >= 128"
    assert set(points) == {1, 64, 128}


def test_noise_has_no_rule() -> None:
    chance = random.Random(7)
    points = {size: chance.random() < 0.5 for size in range(1, 60)}
    assert rules.settle(points, lambda size: None, range(1, 60), 5) is None
    assert rules.hypotheses({1: True, 2: True})[0].text == "always"


@each(
    ("text", "values", "other", "changed"),
    [
        ("array<i64: 1, 2>", (1, 2), (3, 4), "array<i64: 3, 4>"),
        ("array<i64: 1, 2>", (1, 2), (), "array<i64>"),
        ("dense<0> : tensor<2x2xi64>", (0, 0, 0, 0), (1, 0, 0, 2), "dense<[[1, 0], [0, 2]]> : tensor<2x2xi64>"),
        ("dense<[[1, 2]]> : tensor<1x2xi64>", (1, 2), (2, 1), "dense<[[2, 1]]> : tensor<1x2xi64>"),
        ("7 : i64", (7,), (8,), "8 : i64"),
    ],
)
def test_integers_of_attributes(text: str, values: tuple, other: tuple, changed: str) -> None:
    assert attribute_text.integers(text) == values
    assert attribute_text.with_integers(text, other) == changed


def test_other_attributes_have_no_integers() -> None:
    assert attribute_text.integers("true") == attribute_text.integers("#stablehlo.dot<x = [1]>") == ()
    with pytest.raises(ValueError, match="expected integers"):
        attribute_text.with_integers("true", [1])
    assert attribute_text.without_dimension("array<i64: 0, 2>", 3, 1) == ["array<i64: 0, 1>", "array<i64: 0, 2>"]
    assert attribute_text.without_dimension("array<i64: 5, 6>", 2, 0) == ["array<i64: 6>", "array<i64: 5, 6>"]
