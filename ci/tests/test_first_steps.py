"""The way of a stranger: its figures, and that a step which goes wrong is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.first_steps import FROM_CLONE, FROM_WHEEL, Goal, followed, words_until


@pytest.fixture
def page(tmp_path: Path) -> Path:
    text = tmp_path / "page.md"
    text.write_text("To see it: first this, then that.", encoding="utf-8")
    return text


def test_every_page_says_the_command_to_which_it_is_read() -> None:
    assert all(words_until(goal) > 50 for goal in (*FROM_CLONE, *FROM_WHEEL))


def test_steps_are_counted_from_goal_to_goal(tmp_path: Path, page: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    goals = (
        Goal(
            "one",
            page,
            "first",
            ("head -c 3000000 {zeros} > big", 'echo "24 of 24 ops right in $HOME" && false'),
            (0, 1),
        ),
        Goal("two", page, "then", ("echo '3 unique ops = 3 success'",)),
    )
    one, two = followed(goals, folder, zeros=Path("/dev/zero"))
    assert (one.problem, two.problem) == ("", "")
    assert (one.megabytes, two.megabytes) == (pytest.approx(3), 0)
    assert (one.words, two.words) == (3 + 7, 5 + 6)
    assert one.seconds > 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo no such model && exit 2", "ended with 2: no such model"),
        ("echo done", "expected a count of ops at the end"),
    ],
)
def test_a_goal_that_is_missed_is_said_and_the_last(tmp_path: Path, page: Path, command: str, said: str) -> None:
    (missed,) = followed(
        (Goal("one", page, "first", (command,)), Goal("two", page, "then", ("echo 1 of 1",))), tmp_path
    )
    assert said in missed.problem


def test_a_page_that_lacks_the_command_is_refused(page: Path) -> None:
    with pytest.raises(ValueError, match=r"page.md: expected `make sweep` in it, got none"):
        words_until(Goal("one", page, "make sweep", ()))
