"""Errors that a user can act on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from opscope.base.visible_text import visible


class InputError(ValueError):
    """Bad input: printed as one line `<where>: expected X, got Y; try Z`, exit code 2, never a traceback."""

    def __init__(self, where: str, expected: str, got: str, hint: str = "") -> None:
        self.where, self.expected, self.got, self.hint = where, expected, got, hint
        line = f"{where}: expected {expected}, got {got}"
        super().__init__(visible(f"{line}; try {hint}" if hint else line))


def closest(word: str, known: Iterable[str], most: int | None = None) -> str:
    """The known names closest to `word`, for the `try` part of an error.

    If none is close, returns all of them, or the last `most` (the newest, for ids that begin with a date).
    """
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=3, cutoff=0.4)
    return ", ".join(near or (names if most is None else names[-most:][::-1]))
