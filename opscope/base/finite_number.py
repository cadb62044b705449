"""Numbers of a command line that have an end: `nan` compares with nothing, so no range of click refuses it."""

from __future__ import annotations

import math
from typing import Any

import click


class FiniteNumber(click.FloatRange):
    """A range of numbers without `nan` and `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Fails as for one that is out of the range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{str(value)!r} has no end.", param, ctx)
        return number
