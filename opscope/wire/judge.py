"""`opscope judge --json`, and `Verdict.as_json` of `opscope.judge`."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import ConfigDict, PlainSerializer

from opscope.harness.record.records import ResultCheck
from opscope.wire.answer import Answer


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


Number = Annotated[float, PlainSerializer(_number, return_type=float | Literal["nan", "inf", "-inf"])]
"""A number that may not be finite, which is text then."""


class _Part(Answer):
    model_config = ConfigDict(from_attributes=True)


class Worst(_Part):
    """An element that is farther off than others."""

    index: tuple[int, ...]
    inputs: tuple[Number, ...]
    """The operands at its own place, of an elementwise op; none of others."""
    expected: Number
    got: Number
    ulp: Number
    """Its error in units in the last place of the result's type."""
    z: Number | None
    """Its error over what an honest evaluation may be off; null where equal bits are asked for."""


class Cancelled(_Part):
    """Elements that are right only because the op's own steps cancel there."""

    count: int
    of: int
    smallest: Number
    largest: Number
    """The range of the first operand there, of an elementwise op; NaN of others."""


class Reach(_Part):
    """What one operand reached of its element type."""

    patterns: int | None
    """Different values of the 65,536 (256) of a type of 16 (8) bits; null of wider types."""
    possible: int
    exponents: int
    """Binades of normal numbers in which a value lies."""
    of_exponents: int
    classes: tuple[str, ...]
    smallest: Number
    largest: Number
    share: float
    """The share of the domain that was reached, 0 to 1."""


class Judged(Answer):
    """A verdict on a stored result."""

    name: str
    answer: Literal["right", "wrong", "undecided"]
    grade: str
    """`kernel`, `op` or `body`; empty unless it is right."""
    reason: str
    """Why it is not right; empty if it is."""
    by: str
    """Who made the golden."""
    target: str
    """What the result was held to."""
    flags: tuple[str, ...]
    hypothesis: str
    """What may have made a wrong result; empty if nothing fits or nothing is wrong."""
    largest_ulp: Number
    largest_relative: Number
    equal: float
    """The share of elements with the golden's own value, 0 to 1."""
    cancelled: Cancelled | None
    golden: tuple[ResultCheck, ...]
    """Checks of a golden that the caller gave, where the op has a formula."""
    worst: tuple[Worst, ...]
    reach: tuple[Reach | None, ...]
    """Of each operand; null of integers and complex numbers."""
    checks: tuple[ResultCheck, ...]


PRINTS = list[Judged]
