"""When a worker is replaced: after any change, except for what its backend does at every turn."""

from __future__ import annotations

import pytest

from opscope.harness.lanes.leftovers import HABIT, Leftover, Leftovers, leftovers

UNDONE = Leftover("environment", "TF_1: none -> 1", undone=True)
LASTING = Leftover("threads", "pool-7")
CODE = Leftover("code", "numpy.sum replaced", undone=True, verdict=True)


def replaced(seen: Leftovers, *changes: list[Leftover]) -> list[bool]:
    return [seen.replaces(f"op{number}", changes_of_op) for number, changes_of_op in enumerate(changes)]


def test_nothing_changed_replaces_nothing():
    assert replaced(Leftovers(), [], []) == [False, False]


def test_an_undone_change_becomes_a_habit_after_three_ops():
    seen = Leftovers()
    assert replaced(seen, *[[UNDONE], []] * HABIT, [UNDONE]) == [*[True, False] * HABIT, False]
    assert not seen.replaces("op9", [Leftover("environment", "TF_22: none -> 5", undone=True)]), "numbers do not count"
    assert seen.replaces("op9", [Leftover("environment", "HOME: a -> b", undone=True)])


def test_one_op_that_is_tried_again_and_again_makes_no_habit():
    seen = Leftovers()
    assert all(seen.replaces("op", [UNDONE]) for _ in range(9))


def test_a_lasting_change_is_a_habit_after_three_ops_in_a_row():
    assert replaced(Leftovers(), *[[LASTING]] * (HABIT + 1)) == [*[True] * HABIT, False]
    assert replaced(Leftovers(), *[[LASTING], []] * 5) == [True, False] * 5


def test_code_that_verdicts_rest_on_is_never_a_habit():
    assert all(replaced(Leftovers(), *[[CODE]] * 9))


def test_changes_come_as_messages_hold_them():
    assert leftovers([["umask", "22 -> 77", True, False]]) == [Leftover("umask", "22 -> 77", undone=True)]
    for bad in ([1], ["abc"], 5, [["a", "b", "c", "d", "e"]]):
        with pytest.raises(ValueError):
            leftovers(bad)
