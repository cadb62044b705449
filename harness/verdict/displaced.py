"""Whether a result has the right values in wrong places, which no limit on errors sees where neighbours are near-equal.

An honest error knows nothing of the golden's other elements. So a result that is many times nearer to the golden once
it is moved by one along a dim, or once both are sorted, was moved, however small its errors are.
"""

from __future__ import annotations

import numpy as np

NEARER = 8.0
"""So many times nearer, in root mean square, is a result that was moved once it is moved back."""
LEAST = 64
"""Elements from which that is no chance: of n independent errors such a thing has a chance of 8^-n."""
MOST = 1 << 20
"""Elements above which a sort takes longer than the rest of a verdict."""
BEGINNING = 1 << 16
"""Elements of which most moves are ruled out."""
SPARSE = 0.25
"""Share of the golden's own median distance between sorted values that sorted errors must stay below: where values lie
closer than errors, sorting brings any two results together."""


def displaced(golden: np.ndarray, got: np.ndarray, shape: tuple[int, ...]) -> str:
    """How a result was moved, in words; empty if it was not, or if that cannot be told: of few elements, of floats of
    16 bits, whose values repeat, and of values that are not finite. Both arrays are flat."""
    if not LEAST <= golden.size <= MOST or golden.dtype.kind != "f" or golden.dtype.itemsize < 4:
        return ""
    right, device = golden.astype(np.float64), got.astype(np.float64)
    if not (np.isfinite(right).all() and np.isfinite(device).all()):
        return ""
    apart = _distance(right, device)
    if not apart:
        return ""
    for axis, extent in enumerate(shape):
        for step in (1, -1):
            kept, moved = slice(max(0, -step), extent - max(0, step)), slice(max(0, step), extent + min(0, step))
            index = (slice(None),) * axis
            a, b = right.reshape(shape)[(*index, moved)], device.reshape(shape)[(*index, kept)]
            if a.size < LEAST:
                continue
            first = slice(0, max(1, BEGINNING * len(a) // a.size))
            if NEARER**2 * float(np.square(a[first] - b[first]).sum()) >= apart**2 * right.size:
                continue  # the beginning alone is further than all is from its own places
            own = right.reshape(shape)[(*index, kept)]
            if NEARER * _distance(a, b) < _distance(own, b):
                return f"expected each value in its own place, got those one element on along dim {axis}"
    ranks = np.sort(golden).astype(np.float64)  # in its own type: half the time
    gap = float(np.median(np.diff(ranks)))
    if not gap:
        return ""  # most values repeat
    sorted_apart = _distance(ranks, np.sort(got).astype(np.float64))
    if NEARER * sorted_apart < apart and sorted_apart < SPARSE * gap:
        return "expected each value in its own place, got the golden's values in another order"
    return ""


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """The root mean square of a difference."""
    return float(np.sqrt(np.mean(np.square(a - b)))) if a.size else 0.0
