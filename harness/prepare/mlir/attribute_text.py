"""Integers in the MLIR text of attributes: read, and put back with others in their place."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ARRAY = re.compile(r"array<(i\d+): ([-\d, ]+)>")
_DENSE = re.compile(r"dense<([-\d, \[\]]+)> : tensor<((?:\d+x)+)(i\d+)>")
_ONE = re.compile(r"(-?\d+) : (i\d+)")


def integers(text: str) -> tuple[int, ...]:
    """The integers of an array, a dense tensor (row by row) or a single integer; none for anything else."""
    if match := _ARRAY.fullmatch(text):
        return tuple(int(n) for n in match[2].split(","))
    if match := _DENSE.fullmatch(text):
        values = tuple(int(n) for n in re.findall(r"-?\d+", match[1]))
        count = 1
        for extent in match[2].split("x")[:-1]:
            count *= int(extent)
        return values * count if len(values) == 1 else values
    if match := _ONE.fullmatch(text):
        return (int(match[1]),)
    return ()


def with_integers(text: str, values: Sequence[int]) -> str:
    """The same attribute with other integers; an array may become shorter or longer, a dense tensor may not."""
    if match := _ARRAY.fullmatch(text):
        return f"array<{match[1]}: {', '.join(map(str, values))}>" if values else f"array<{match[1]}>"
    if match := _DENSE.fullmatch(text):
        extents = [int(n) for n in match[2].split("x")[:-1]]
        return f"dense<{_nested(list(values), extents)}> : tensor<{match[2]}{match[3]}>"
    if match := _ONE.fullmatch(text):
        return f"{values[0]} : {match[2]}"
    raise ValueError(f"attribute: expected integers, got {text!r}")


def _nested(values: list[int], extents: Sequence[int]) -> str:
    if len(extents) == 1:
        return f"[{', '.join(map(str, values))}]"
    step = len(values) // extents[0]
    rows = [_nested(values[n * step : (n + 1) * step], extents[1:]) for n in range(extents[0])]
    return f"[{', '.join(rows)}]"


def is_array(text: str) -> bool:
    """Whether the attribute is a list whose length may change."""
    return bool(_ARRAY.fullmatch(text))


def without_dimension(text: str, rank: int, dim: int) -> list[str]:
    """What an attribute may become when dimension `dim` of `rank` goes: shorter by its entry, or renumbered."""
    if not is_array(text):
        return [text]
    values = integers(text)
    texts = [text]
    if len(values) == rank:
        texts.insert(0, with_integers(text, [v for n, v in enumerate(values) if n != dim]))
    if all(0 <= v < rank for v in values):
        texts.insert(0, with_integers(text, [v - (v > dim) for v in values if v != dim]))
    return list(dict.fromkeys(texts))
