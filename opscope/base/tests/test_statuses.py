"""Statuses, labels and stages: one word, one meaning, one colour."""

from __future__ import annotations

import re

from opscope.base import statuses
from opscope.base.labels import LABELS, label_colours
from opscope.base.statuses import STAGES, STATUSES, SUPPORT, TERMINAL
from opscope.base.tests.each import each


def test_colours_are_colours_and_meanings_are_sentences() -> None:
    assert all(re.fullmatch("#[0-9A-F]{6}", colour) for colour in label_colours().values())
    for word in (*STATUSES.values(), *LABELS.values(), *SUPPORT.values()):
        assert word.meaning.endswith(".")
        assert word.tone in TERMINAL


def test_no_two_statuses_look_alike() -> None:
    colours = [word.colour for word in STATUSES.values()]
    assert len(set(colours)) == len(colours)


def test_every_status_either_went_wrong_or_was_not_attempted_or_is_right() -> None:
    assert set(STATUSES) == statuses.RIGHT | statuses.FAILED | statuses.NOT_ATTEMPTED
    assert {"success", statuses.PASSED} == statuses.RIGHT


@each(("word", "colour"), [("0 split", "split"), ("9 compare", "compare"), ("5 vm", "vm")])
def test_dashboards_number_stages(word: str, colour: str) -> None:
    assert label_colours()[word] == STAGES[colour][1]
