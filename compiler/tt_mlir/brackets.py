"""Finds where brackets close and where lists part, in MLIR's text, whose strings may hold any of its signs."""

from __future__ import annotations

import re

_SIGNS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|->|[<>\[\](){},]')
"""Strings and arrows as wholes, so that what they hold is neither a bracket nor a comma."""
_OPEN, _CLOSE = frozenset("<[({"), frozenset(">])}")


def closing(text: str, start: int) -> int:
    """Returns the place after the bracket that closes the one at `start`. Raises ValueError if none does."""
    depth = 0
    for match in _SIGNS.finditer(text, start):
        sign = match[0]
        if sign in _OPEN:
            depth += 1
        elif sign in _CLOSE:
            depth -= 1
            if depth == 0:
                return match.end()
    raise ValueError(f"expected a bracket that closes {text[start : start + 20]!r}, got the end of the line")


def parts(text: str) -> list[str]:
    """Returns what stands between the commas of a list, commas within brackets apart; none of an empty text."""
    pieces: list[str] = []
    depth = begin = 0
    if "," not in text:
        return [text.strip()] if text.strip() else []
    for match in _SIGNS.finditer(text):
        sign = match[0]
        if sign in _OPEN:
            depth += 1
        elif sign in _CLOSE:
            depth -= 1
        elif sign == "," and depth == 0:
            pieces.append(text[begin : match.start()].strip())
            begin = match.end()
    last = text[begin:].strip()
    return [*pieces, last] if last else pieces


def pair(text: str) -> tuple[str, str | None]:
    """Returns name and value of `name = value`; the value is None where there is only a name."""
    name, equals, value = text.partition(" = ")
    return name.strip(), value.strip() if equals else None
