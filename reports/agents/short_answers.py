"""Answers that fit their reader: the first rows of each list, and how many were left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MOST = 11_500
"""Characters of an answer by default: at four to a token, with what each answer says of itself, 3,000 tokens."""
FEW = 4
"""Values of a list of names, unless more is asked for."""
MANY = 20
"""Entries of a map from which on it is data and no record."""
LONGEST = 500
"""Characters of a text, unless more is asked for."""


def short(value: dict[str, Any], rows: int, most: int = MOST) -> dict[str, Any]:
    """The value with at most `rows` rows in each list, and so few of the longest lists that its JSON has `most`
    characters. `..._left_out` beside a list counts what is not there; a field without a value is not there."""
    cut = trimmed(value, rows, FEW, LONGEST, empty=False)
    while len(text_of(cut)) > most:
        lists = [(weight(own), name, holder) for name, own, holder in lists_in(cut) if len(own) > 1]
        if not lists:
            return trimmed(cut, rows, FEW, LONGEST // 3, empty=False)
        _, name, holder = max(lists, key=lambda one: one[0])
        fewer = len(holder[name]) - max(1, len(holder[name]) // 4)
        leave(holder, name, len(holder[name]) - fewer)
        holder[name] = holder[name][:fewer]
    return cut


def trimmed(value: Any, rows: int, names: int, longest: int, *, empty: bool) -> Any:
    """The value with only so many rows of a list, names of a list or entries of a map, and characters of a text;
    `empty`: with fields that have no value."""
    if isinstance(value, str) and len(value) > longest:
        return f"{value[:longest]}... ({len(value) - longest} characters left out)"
    if isinstance(value, list):
        return [trimmed(each, rows, names, longest, empty=empty) for each in value[: most_of(value, rows, names)]]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for name, own in value.items():
        if not empty and (own is None or own in ("", {})):
            continue
        kept[name] = trimmed(own, rows, names, longest, empty=empty)
        if isinstance(own, list) and len(own) > len(kept[name]):
            leave(kept, name, len(own) - len(kept[name]))
        elif isinstance(own, dict) and len(own) > max(MANY, names) and not any(map(is_nested, own.values())):
            kept[name] = dict(list(kept[name].items())[:names])
            leave(kept, name, len(own) - names)
    return kept


def most_of(values: list[Any], rows: int, names: int) -> int:
    """How many of a list stay."""
    return rows if any(map(is_nested, values)) else names


def is_nested(value: Any) -> bool:
    """Whether a value is more than a word or a number."""
    return isinstance(value, dict | list)


def leave(holder: dict[str, Any], name: str, count: int) -> None:
    """Counts values of `holder[name]` that are left out."""
    holder[f"{name}_left_out"] = holder.get(f"{name}_left_out", 0) + count


def lists_in(value: Any) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Each list below a value, with its name and what has it."""
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    if isinstance(value, dict):
        yield from ((name, own, value) for name, own in value.items() if isinstance(own, list))
    for each in inner:
        yield from lists_in(each)


def weight(values: list[Any]) -> int:
    """The characters of a list without the lists below it."""
    return len(text_of(values)) - sum(len(text_of(own)) for _, own, _ in lists_in(values))


def text_of(value: Any) -> str:
    """The JSON of an answer, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
