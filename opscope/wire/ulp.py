"""`opscope ulp --json`."""

from __future__ import annotations

from opscope.wire.answer import Answer
from opscope.wire.judge import Number


class Worst(Answer):
    """An input with one of the largest errors."""

    inputs: tuple[str, ...]
    expected: str
    got: str


class Swept(Answer):
    """An op over the numbers, or the special values, of one type, on one backend."""

    op: str
    type: str
    part: str
    """`numbers` or `specials`."""
    backend: str
    status: str
    error: str | None
    inputs: int
    largest_ulp: Number | None
    """The largest error in units in the last place; null where there is no result."""
    over_ulp: int
    """Results that are more than a unit off."""
    nearest: float
    """The share of results that are the nearest number."""
    where: str
    worst: tuple[Worst, ...]
    op_id: str
    run_id: str


PRINTS = list[Swept]
