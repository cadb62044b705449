"""MLIR's quantised element types, read from their text: `!quant.uniform<i8<-127:127>:f32:3, {0.1,0.2:-5}>`.

A value of one is a stored integer; what it stands for is (stored - zero point) * scale.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

PREFIX = "!quant.uniform<"
_FORM = re.compile(
    r"!quant\.uniform<(?P<sign>[iu])(?P<bits>\d+)(<(?P<low>-?\d+):(?P<high>-?\d+)>)?:(?P<expressed>\w+)"
    r"(:(?P<axis>\d+))?, (?P<steps>[^<>]*)>"
)


@dataclass(frozen=True)
class QuantisedType:
    """One quantised element type."""

    storage: str
    """MLIR's name of the integer that is stored: `i8`, `ui8`."""
    expressed: str
    """MLIR's name of the float that it stands for."""
    low: int
    high: int
    """The smallest and the largest integer that is stored."""
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    """One of each for the tensor, or one for each index of `axis`."""
    axis: int | None = None


@lru_cache(maxsize=4096)
def quantised_type(element: str) -> QuantisedType | None:
    """The quantised type that `element` spells; None if it is another type, or has scales of blocks."""
    match = _FORM.fullmatch(element)
    if match is None or match["steps"].count("{") > 1:
        return None
    bits, signed = int(match["bits"]), match["sign"] == "i"
    steps = [step.strip().partition(":") for step in match["steps"].strip("{}").split(",")]
    return QuantisedType(
        f"{'' if signed else 'u'}i{bits}",
        match["expressed"],
        int(match["low"] or (-(1 << bits - 1) if signed else 0)),
        int(match["high"] or (1 << (bits - 1 if signed else bits)) - 1),
        tuple(float(scale) for scale, _, _ in steps),
        tuple(int(zero or 0) for _, _, zero in steps),
        None if match["axis"] is None else int(match["axis"]),
    )


def storage_of(element: str) -> str:
    """The type of the integers that hold a value of an element type: its own, unless it is a quantised one."""
    quantised = quantised_type(element)
    return element if quantised is None else quantised.storage
