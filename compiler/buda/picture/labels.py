"""Words on an op's rectangle: its name if there is room, else a shorter form that still says what it is."""

from __future__ import annotations

import re

LETTER = 0.62
"""Width of a letter, as a share of the size of its font (wide system fonts, so that none is cut off)."""
SHORT = {
    "sparse_matmul": ("sparse", "sp"),
    "matmul": ("matmul", "mm"),
    "_fused_op": ("fused", "f"),
    "reduce": ("reduce", "r"),
    "subtract": ("subtract", "sub"),
    "multiply": ("multiply", "mul"),
    "maximum": ("maximum", "max"),
    "reciprocal": ("recip", "rc"),
    "buffer": ("buffer", "buf"),
    "fork_nop": ("fork nop", "nop"),
    "splice": ("splice", "cut"),
}
"""Kind of name -> shorter ones; the number follows them."""


def width(text: str, size: float) -> float:
    """Returns the width of a line of text, in the units of its font's size."""
    return len(text) * LETTER * size


def forms(name: str) -> tuple[str, ...]:
    """Returns ways to write an op's name, longest first: whole, by kind and number, by first letter and number."""
    match = re.fullmatch(r"(\D*?)_?(\d+)(_.*)?", name)
    if match is None:
        return tuple(dict.fromkeys((name, *SHORT.get(name, ()))))
    kind, number = match[1], match[2]
    shorts = SHORT.get(kind, (kind, kind[:3]))
    return tuple(dict.fromkeys((name, *(f"{short} {number}" for short in shorts), f"{kind.strip('_')[:1]}{number}")))


def label(name: str, room: float, size: float) -> str:
    """Returns the longest form of a name that fits into that room; nothing if none does."""
    return next((form for form in forms(name) if width(form, size) <= room), "")


def thousands(cycles: int) -> str:
    """Returns cycles in a few letters: 132,634 as `133k`."""
    return f"{round(cycles / 1000)}k" if cycles >= 1000 else str(cycles)
