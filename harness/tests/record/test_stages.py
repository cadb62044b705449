"""Stages: the words of this tree, and those that a user's own backend brings."""

from __future__ import annotations

import pytest

from opscope.base.tests.each import each
from opscope.harness.record.records import StageTime
from opscope.harness.record.stages import Stage, Status, failed_status, in_order


def test_an_own_word_is_a_stage_and_always_the_same_one():
    link = Stage("link-it.2")
    assert link is Stage("link-it.2")
    assert link == "link-it.2"
    assert link not in tuple(Stage)
    read = StageTime.model_validate_json(StageTime(stage=link, seconds=1).model_dump_json())
    assert read.stage is link
    assert Stage("run") is Stage.RUN


@each("word", ["", "Link", "a b", "-x", "x" * 41, "x/y"])
def test_other_words_are_none(word):
    with pytest.raises(ValueError, match="not a valid Stage"):
        Stage(word)


def test_own_stages_stand_where_ops_climbed_them():
    climbs = [["compile", "link"], ["compile", "link", "pack", "run", "compare"], []]
    seen = {"split", "compare", "pack", "link", "run", "compile"}
    assert in_order(seen, climbs) == ["split", "compile", "link", "pack", "run", "compare"]
    assert in_order({"compare", "never-climbed", "split"}, []) == ["split", "never-climbed", "compare"]
    assert in_order({"vm", "flow", "input"}, []) == ["input", "flow", "vm"]
    assert in_order({"link", "vm", "run"}, [["link", "vm"]]) == ["link", "vm", "run"]  # nobody asks for `split`
    assert in_order({"lost", "lent"}, []) == ["lent", "lost"]
    # The longest climb is heard first, and a stage stays where it was put.
    assert in_order({"split", "a", "b", "c"}, [["b", "a"], ["a", "b", "c"]]) == ["split", "a", "b", "c"]


@each(
    ("stage", "status"),
    [
        (Stage.RUN, Status.RUN_FAILED),
        (Stage.COMPARE, Status.WRONG_RESULT),
        (Stage.COMPILE, Status.COMPILE_FAILED),
        (Stage("link"), Status.COMPILE_FAILED),
    ],
)
def test_a_failure_before_the_run_is_compile_failed(stage, status):
    assert failed_status(stage) is status
