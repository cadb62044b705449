"""What one step did to one state (a cache, or what a recurrence keeps), beside what it was to do.

A cache is written in one place and else left as it is, so its whole says little: one wrong position in a hundred leaves
a PCC of 0.99. So the elements that the golden step changed are compared by themselves, and all others are to stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

KEPT = 2.0**-7
"""How far an element that is not written may move, of its size: a narrow format rounds it once when it is stored."""


@dataclass(frozen=True)
class State:
    """A state before and after a step, on the host and on the backend."""

    name: str
    golden_before: np.ndarray
    golden_after: np.ndarray
    before: np.ndarray
    after: np.ndarray


def pcc(golden: np.ndarray, got: np.ndarray) -> float:
    """Pearson's correlation in float64; of values that do not vary 1 if they are equal, else 0. NaN counts as 0."""
    a, b = (np.ravel(x).astype(np.float64) for x in (golden, got))
    if not np.isfinite(b).all():
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    if size == 0.0:
        return float(np.allclose(golden, got, rtol=1e-2, atol=1e-5))
    return float(a @ b) / size


def written(state: State) -> np.ndarray:
    """Mask of the elements that the golden step changed."""
    return state.golden_after != state.golden_before


def problem(state: State, others: Sequence[State], least: float) -> str:
    """Says what is wrong with a state after a step; empty if nothing is. `least` is the PCC that its values need."""
    if state.after.shape != state.golden_after.shape:
        return f"{state.name}: expected shape {state.golden_after.shape}, got {state.after.shape}"
    mask = written(state)
    if not mask.any():
        return ""
    if (state.after[mask] == state.before[mask]).all():
        where = "written elsewhere" if (state.after != state.before).any() else "not written"
        return f"{state.name} is {where}{_place(state, mask)}"
    kept = ~mask
    moved = np.abs(state.after - state.before)[kept] > KEPT * np.abs(state.before[kept])
    if moved.any():
        return f"{state.name} is written elsewhere too: {int(moved.sum())} elements that are to stay"
    score = pcc(state.golden_after[mask], state.after[mask])
    if score >= least:
        return ""
    for other in others:
        same = other is not state and other.golden_after.shape == state.golden_after.shape
        if same and pcc(other.golden_after[mask], state.after[mask]) >= least:
            return f"{state.name} is aliased: it holds what {other.name} is to hold"
    return f"{state.name} has wrong values where it is written: PCC {score:.4f}"


def _place(state: State, mask: np.ndarray) -> str:
    """Names the position along the one dim that is written in part."""
    along = [dim for dim in range(mask.ndim) if mask.shape[dim] > 1 and _single(mask, dim) is not None]
    return f" at position {_single(mask, along[0])} of dim {along[0]}" if len(along) == 1 else ""


def _single(mask: np.ndarray, dim: int) -> int | None:
    places = np.flatnonzero(mask.any(axis=tuple(d for d in range(mask.ndim) if d != dim)))
    return int(places[0]) if len(places) == 1 else None
