"""`opscope history --json`."""

from __future__ import annotations

from opscope.reports.nightly.history import Line
from opscope.wire.answer import Answer


class First(Answer):
    """Since which release an op fails."""

    op_id: str
    op_name: str
    right: str
    """The last release tried in which it did not fail; empty if it failed in all of them."""
    failing: str
    """The first release in which it fails."""


class History(Answer):
    """A night of each release."""

    releases: tuple[Line, ...]
    problems: dict[str, str]
    """Release -> why it did not run."""
    first_failing: tuple[First, ...]
    """With --bisect."""


PRINTS = History
