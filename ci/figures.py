"""Measured figures, each printed as one line of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Figure(NamedTuple):
    """One measured number with its target."""

    what: str
    value: str
    target: str
    met: bool


def print_figures(figures: Iterable[Figure]) -> int:
    """Prints each figure as soon as it is measured; returns 1 if any misses its target."""
    missed = 0
    for figure in figures:
        print(f"| {figure.what} | {figure.value} | {figure.target} | {'yes' if figure.met else 'no'} |", flush=True)
        missed += not figure.met
    return 1 if missed else 0
