"""Whether a result has the right values in wrong places, which no limit on errors sees where neighbours are near-equal.

An honest error knows nothing of the golden's other elements. So a result that is many times nearer to the golden once
it is moved by one along a dim, or once both are sorted, was moved, however small its errors are.
"""

from __future__ import annotations

import math

import numpy as np

NEARER = 8.0
"""So many times nearer, in root mean square, is a result that was moved once it is moved back."""
LEAST = 64
"""Elements from which that is no chance: of n independent errors such a thing has a chance of 8^-n."""
MOST = 1 << 20
"""Elements above which a sort takes longer than the rest of a verdict."""
BEGINNING = 1 << 16
"""Elements of which most moves are ruled out, and distances between sorted values of which the median is taken."""
SPARSE = 0.25
"""Share of the golden's own median distance between sorted values that sorted errors must stay below: where values lie
closer than errors, sorting brings any two results together."""


def displaced(golden: np.ndarray, got: np.ndarray, shape: tuple[int, ...]) -> str:
    """How a result was moved, in words; empty if it was not, or if that cannot be told: of few elements, of floats of
    16 bits, whose values repeat, and of values that are not finite. Both arrays are flat."""
    if not LEAST <= golden.size <= MOST or golden.dtype.kind != "f" or golden.dtype.itemsize < 4:
        return ""
    if not (np.isfinite(golden).all() and np.isfinite(got).all()):
        return ""
    apart = _distance(golden, got)
    if not apart:
        return ""
    right, device = golden.reshape(shape), got.reshape(shape)
    for axis, extent in enumerate(shape):
        for step in (1, -1):
            kept, moved = slice(max(0, -step), extent - max(0, step)), slice(max(0, step), extent + min(0, step))
            index = (slice(None),) * axis
            a, b = right[(*index, moved)], device[(*index, kept)]
            if a.size < LEAST:
                continue
            first = slice(0, max(1, BEGINNING * len(a) // a.size))
            if NEARER**2 * _squares(a[first], b[first]) >= apart**2 * right.size:
                continue  # the beginning alone is further than all is from its own places
            if NEARER * _distance(a, b) < _distance(right[(*index, kept)], b):
                return f"expected each value in its own place, got those one element on along dim {axis}"
    largest = [np.sort(values[values > _near_top(golden)]) for values in (golden, got)]
    least = min(map(len, largest))  # these have equal ranks
    if NEARER**2 * _squares(*(values[len(values) - least :] for values in largest)) >= apart**2 * golden.size:
        return ""  # once both are sorted, the largest alone are further apart than all may be
    ranks = np.sort(golden)
    gap = float(np.median(np.diff(ranks)[:: golden.size // BEGINNING + 1]))
    if not gap:
        return ""  # most values repeat
    sorted_apart = _distance(ranks, np.sort(got))
    if NEARER * sorted_apart < apart and sorted_apart < SPARSE * gap:
        return "expected each value in its own place, got the golden's values in another order"
    return ""


def _near_top(values: np.ndarray) -> float:
    """What about a sixteenth of some values are larger than."""
    return float(np.quantile(values[:: values.size // 4096 + 1], 15 / 16))


def _squares(a: np.ndarray, b: np.ndarray) -> float:
    """The sum of squares of a difference, in float64."""
    difference = np.subtract(a, b, dtype=np.float64)
    return float(np.square(difference, out=difference).sum())


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """The root mean square of a difference."""
    return math.sqrt(_squares(a, b) / a.size) if a.size else 0.0
