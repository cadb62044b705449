"""What a note about a cause may say: the rules of `opscope note`, and of the page that writes notes."""

from __future__ import annotations

from datetime import date

LONGEST = 500
"""Characters of a note."""
LONGEST_NAME = 80
"""Characters of the name of who writes it."""

Refusal = tuple[str, str, str]
"""What is wrong, what was expected, and what was given."""


def refusal(text: str, author: str, until: date | None, today: date) -> Refusal | None:
    """Why a note is not taken: an empty or a long text, or a date that has passed; None if it is."""
    for what, each, most in (("TEXT", text, LONGEST), ("--by", author, LONGEST_NAME)):
        if not 0 < len(each) <= most:
            return what, f"1 to {most} characters", f"{len(each)}"
    if until is not None and until < today:
        return "--until", "today or a later day", f"{until}"
    return None
