"""Lists of row numbers as runs: (length, first, step) one after another, a first of -1 where there is no row.

What a picker picks mostly goes on by one step for a while, so that runs are much shorter than the list.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NONE = -1
"""Stands for no row."""


def runs_of(rows: Sequence[int] | np.ndarray) -> tuple[int, ...]:
    """Returns the runs of a list of rows."""
    numbers = np.asarray(rows, np.int64)
    runs: list[int] = []
    steps = np.diff(numbers).tolist()
    empty = (numbers < 0).tolist()
    at, count = 0, len(numbers)
    while at < count:
        end, step = at + 1, 0
        if empty[at]:
            while end < count and empty[end]:
                end += 1
            runs += (end - at, NONE, 0)
        else:
            if end < count and not empty[end]:
                step = steps[at]
                while end < count and not empty[end] and steps[end - 1] == step:
                    end += 1
            runs += (end - at, int(numbers[at]), step)
        at = end
    return tuple(runs)


def rows_of(runs: Sequence[int]) -> np.ndarray:
    """Returns the list of rows that runs stand for. Raises ValueError if they are not triples of a length above 0."""
    if len(runs) % 3:
        raise ValueError(f"runs: expected triples of length, first and step, got {len(runs)} numbers")
    parts = []
    for length, first, step in zip(*(runs[i::3] for i in range(3)), strict=True):
        if length < 1 or (first >= 0 and first + (length - 1) * step < 0):
            raise ValueError(f"runs: expected a length above 0 and rows from 0, got {length}, {first}, {step}")
        parts.append(np.full(length, NONE, np.int64) if first < 0 else first + step * np.arange(length, dtype=np.int64))
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


__all__ = ["NONE", "rows_of", "runs_of"]
