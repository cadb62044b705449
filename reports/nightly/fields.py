"""Checks the values of a configuration; every error names the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opscope.harness.record.errors import InputError, closest


def text(where: str, value: Any) -> str:
    """Checks a text that is not empty. Raises InputError for anything else."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(where, "a text", _shown(value))
    return value


def texts(where: str, value: Any) -> tuple[str, ...]:
    """One text or a list of them."""
    if isinstance(value, str):
        return (text(where, value),)
    if not isinstance(value, list):
        raise InputError(where, "a list of texts", _shown(value), "[one, two]")
    values = tuple(text(f"{where}[{place}]", item) for place, item in enumerate(value))
    twice = next((item for item in values if values.count(item) > 1), None)
    if twice is not None:
        raise InputError(where, "each text once", f"`{twice}` twice")
    return values


def whole_number(where: str, value: Any) -> int:
    """A whole number from 1 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(where, "a whole number of at least 1", _shown(value), "1")
    return value


def number(where: str, value: Any) -> float:
    """A number above 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise InputError(where, "a number above 0", _shown(value), "10")
    return float(value)


def mapping(where: str, value: Any, keys: Sequence[str] | None = None) -> Mapping[str, Any]:
    """A map whose keys are among `keys`, if these are given."""
    if not isinstance(value, dict):
        raise InputError(where, "a mapping", _shown(value))
    for key in value:
        if keys is not None and key not in keys:
            raise InputError(where, f"{', '.join(keys)}", f"`{key}`", closest(str(key), keys))
    return value


def one_of(where: str, value: Any, words: Sequence[str]) -> str:
    """One of the words."""
    if value not in words:
        raise InputError(where, " or ".join(words), _shown(value), closest(str(value), words))
    return str(value)


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)
