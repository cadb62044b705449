"""What an error says, in one line."""

from __future__ import annotations

from opscope.base.first_line import first_line
from opscope.base.tests.each import each

KERAS = "Exception encountered when calling D.call().\n\n\x1b[1mgot an unexpected argument 'y'\x1b[0m\n\nArguments: x"


@each(
    ("message", "line"),
    [
        (KERAS, "Exception encountered when calling D.call(). got an unexpected argument 'y'"),
        ("\nno such file\nmore", "no such file"),
        ("expected one of:\n  a, b\n  c", "expected one of: a, b"),
        ("alone:", "alone:"),
        ("", ""),
    ],
)
def test_the_first_line_that_says_something_is_taken(message: str, line: str) -> None:
    assert first_line(ValueError(message)) == line
