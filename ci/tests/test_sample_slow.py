"""The sample is repeatable, spread over files, and does not hang on the order of collection."""

from __future__ import annotations

import re

from ci.sample_slow import ROOT, choose, files, left

IDS = [f"room/tests/test_{file}.py::test_{number}" for file in "abcdef" for number in range(5)]


def test_the_same_seed_takes_the_same_tests_in_any_order() -> None:
    assert choose(IDS, 2, 4) == choose(reversed(IDS), 2, 4)
    assert any(choose(IDS, 2, 4) != choose(IDS, seed, 4) for seed in range(10))


def test_one_test_per_file_and_never_more_than_there_are() -> None:
    chosen = choose(IDS, 1, 100)
    assert len(chosen) == 6
    assert len({node_id.partition("::")[0] for node_id in chosen}) == 6
    assert choose([], 1, 3) == []


def test_what_runs_anyway_is_left_out_of_what_was_drawn() -> None:
    chosen = choose(IDS, 1, 100)
    assert left(chosen, ["room/tests/test_c.py"]) == [each for each in chosen if "test_c" not in each]
    assert left(chosen, []) == chosen


def test_only_files_with_slow_tests_are_asked_for_them() -> None:
    asked = files()
    assert {"ci/tests/test_wheel.py", "harness/tests/acceptance/test_kills.py"} <= set(asked)
    assert "ci/tests/test_sample_slow.py" in asked, "this one speaks of them"
    assert "ci/tests/test_changelog.py" not in asked


def test_a_file_of_slow_tests_alone_says_so_once() -> None:
    """Each worker of the quick tests would import it otherwise, and what it needs."""
    singly = []
    for path in files():
        text = (ROOT / path).read_text(encoding="utf-8")
        marks, tests = (
            len(re.findall(pattern, text, re.MULTILINE)) for pattern in (r"^@pytest\.mark\.slow$", r"^def test_")
        )
        if marks == tests > 0 and "\nclass Test" not in text:
            singly.append(path)
    assert singly == [], "try pytestmark = pytest.mark.slow"
