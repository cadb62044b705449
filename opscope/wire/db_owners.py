"""`opscope db owners --json`."""

from __future__ import annotations

from opscope.wire.answer import Answer


class Stored(Answer):
    """What was stored."""

    rules: int
    """Rules of owners."""


PRINTS = Stored
