"""What an error of somebody else's says, in one line."""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_SAYS_WHERE_ALONE = re.compile(r"Exception encountered when calling .*|.*:")
"""First lines that leave the reason to the next one: Keras's, and those that end with a colon."""


def first_line(error: BaseException) -> str:
    """Returns the first line of a message, with the next one where it only says where it is from; '' if it is empty."""
    lines = [line.strip() for line in _ESCAPES.sub("", str(error)).splitlines() if line.strip()]
    return " ".join(lines[: 2 if lines and _SAYS_WHERE_ALONE.fullmatch(lines[0]) else 1])
