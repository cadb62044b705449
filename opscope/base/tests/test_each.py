"""Cases that are run in one test: all of them, and a failure names its own."""

from __future__ import annotations

import inspect

import pytest

from opscope.base.tests.each import each


def test_all_are_run_crossed_and_beside_fixtures() -> None:
    seen: list[tuple[int, str, str]] = []

    @each("number", [1, 2])
    @each(("one", "two"), [("a", "b"), ("c", "d")])
    def crossed(number: int, one: str, two: str, folder: str) -> None:
        seen.append((number, one + two, folder))

    assert [*inspect.signature(crossed).parameters] == ["folder"], "what pytest gives it"
    crossed(folder="f")
    assert seen == [(1, "ab", "f"), (1, "cd", "f"), (2, "ab", "f"), (2, "cd", "f")]


def test_a_failure_names_its_case() -> None:
    @each("number, word", [(1, "one"), (2, "two"), (3, "three")])
    def odd(number: int, word: str) -> None:
        assert number % 2, word

    with pytest.raises(AssertionError) as failed:
        odd()
    assert failed.value.__notes__ == ["where number = 2, word = 'two'"]
