"""Errors that are expected of a backend, in a file: an op that is worse now is said, and so is one that is better."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.signature import shorten
from opscope.harness.ulp.sweep import Swept

DIGITS = 3
"""Digits of an error that count."""


@dataclass(frozen=True)
class Change:
    """An op whose error is not as the file has it."""

    key: str
    was: str
    now: str
    turn: str
    """`worse`, `better` or `new`."""

    def __str__(self) -> str:
        if self.turn == "new":
            return f"{self.key}: not in the file, got {self.now}"
        return f"{self.key}: {self.turn}: expected {self.was}, got {self.now}"


def read(path: Path) -> dict[str, str]:
    """`tanh bf16 numbers xla` -> `1.2 ulp, 3 over 1`, or how it ends without a result. Raises InputError."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(known, dict) or not all(isinstance(text, str) for text in known.values()):
            raise ValueError("something else")
    except (OSError, ValueError) as error:
        expected = "errors as `opscope ulp --expected FILE --update` writes them"
        raise InputError(str(path), expected, shorten(str(error), 80), "--update") from error
    return known


def written(path: Path, known: Mapping[str, str], swept: Sequence[Swept]) -> None:
    """Writes the file: what was in it, and what came now. Raises InputError where the disk refuses it."""
    errors = dict(sorted({**known, **{each.key: error_of(each) for each in swept}}.items()))
    store.write_whole(path, json.dumps(errors, indent=1) + "\n", "another file")


def error_of(swept: Swept) -> str:
    """The error of a part as the file has it."""
    if swept.got is None:
        return swept.test.status
    return f"{swept.largest:.{DIGITS}g} ulp, {swept.over} over 1"


def changes(known: Mapping[str, str], swept: Sequence[Swept]) -> list[Change]:
    """What is not as the file has it."""
    found = []
    for each in swept:
        was, is_now = known.get(each.key), error_of(each)
        if was is None:
            found.append(Change(each.key, "", is_now, "new"))
        elif was != is_now:
            found.append(Change(each.key, was, is_now, "worse" if _rank(is_now) > _rank(was) else "better"))
    return found


def _rank(error: str) -> tuple[float, int]:
    """The order of errors: no result is the largest."""
    words = error.replace(",", "").split()
    return (float(words[0]), int(words[2])) if len(words) == 5 else (float("inf"), 1 << 62)
