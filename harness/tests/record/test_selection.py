"""Ops that a user names: by name, family, id or the beginning of an id; and what is said of a word that names none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from opscope.base.tests.each import each
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow
from opscope.harness.record.selection import (
    DESELECTED,
    find_op_ids,
    matches_globs,
    none_ran,
    none_selected,
    refuse_unmatched,
    unmatched_globs,
)
from opscope.harness.record.stages import Status

IDS = ("abc1", "abc2", "abc3", "abd9", "abd9x", "xyz1")
ROWS = [OpRow(op_id=op_id, op_name="stablehlo.add", module="m") for op_id in IDS]
ROWS.append(OpRow(op_id="gone", op_name="stablehlo.custom_call:Foo", module=None))


@each(
    ("globs", "matched"),
    [
        (["stablehlo.dot_general"], True),
        (["dot_*"], True),
        (["matmul"], True),
        (["abc1"], True),
        (["add", "abc?"], True),
        (["general"], False),
        (["stablehlo"], False),
        (["MATMUL"], False),
        ([], False),
    ],
)
def test_a_pattern_is_of_a_name_with_or_without_dialect_a_family_or_an_id(globs: list[str], matched: bool) -> None:
    assert matches_globs(OpRow(op_id="abc1", op_name="stablehlo.dot_general", module="m"), globs) is matched


def test_an_id_or_the_beginning_of_one_is_enough() -> None:
    assert find_op_ids(ROWS, ["xyz1"]) == {"xyz1"}
    assert find_op_ids(ROWS, ["x", "abc2", "xy"]) == {"xyz1", "abc2"}
    assert find_op_ids(ROWS, ["abd9"]) == {"abd9"}  # another one begins with it
    assert find_op_ids(ROWS, ["abd9x"]) == {"abd9x"}
    assert find_op_ids(ROWS, []) == set()


@each(
    ("word", "got"),
    [
        ("ab", "'ab', with which 5 ids begin; try abc1, abc2, abc3"),
        ("abd", "'abd', with which 2 ids begin; try abd9, abd9x"),
        ("abx1", "'abx1'; try abc1, abd9x"),
        ("abcc", "'abcc'; try abc3, abc2, abc1"),
        ("bc", "'bc'; try abc3, abc2, abc1"),
        ("", "''; try --run-dir RUN --collect-only -q"),
        ("gone", "'gone'; try --run-dir RUN --collect-only -q"),
    ],
)
def test_a_word_that_names_no_op_or_several_is_refused(word: str, got: str) -> None:
    with pytest.raises(InputError) as caught:
        find_op_ids(ROWS, ["xyz1", word], "--ops")
    assert str(caught.value) == f"--ops: expected the id of an op of the run, got {got}"


def test_a_pattern_without_a_match_is_refused_with_the_closest_op() -> None:
    rows = [OpRow(op_id="abc1", op_name=name, module="m") for name in ("stablehlo.convolution", "stablehlo.add")]
    said = [str(error) for error in unmatched_globs(rows, ["*convolutoin", "add", "stablehlo.convolutoin*", "qqq"])]
    begin = "--ops: expected the name, family or id of an op of the run, got"
    assert said == [
        f"{begin} '*convolutoin'; try convolution",
        f"{begin} 'stablehlo.convolutoin*'; try convolution",
        f"{begin} 'qqq'; try --collect-only -q, which lists the ops",
    ]
    refuse_unmatched(rows, ["add", "qqq"])
    refuse_unmatched([], ["qqq"])
    with pytest.raises(InputError) as caught:
        refuse_unmatched(rows, ["qqq", "www"])
    assert str(caught.value) == said[-1]


def test_a_run_of_which_nothing_ran_or_was_selected() -> None:
    tests = {status: SimpleNamespace(status=status, error_message="") for status in Status}
    skipped, cut, right = tests[Status.SKIPPED], tests[Status.NOT_RUN], tests[Status.SUCCESS]
    out = SimpleNamespace(status=Status.SKIPPED, error_message=DESELECTED)
    assert none_ran([skipped, cut, out])
    assert not any(map(none_ran, ([skipped, right], [])))
    assert none_selected([out, out])
    assert not any(map(none_selected, ([out, skipped], [])))
