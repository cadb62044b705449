"""Sums over a result and its golden in one pass: relative L2, PCC, and where NaN and infinity stand.

All arithmetic is float64, in chunks that fit a cache. Legal on this hardware and only counted: flushed denormals, and
infinity against a huge value where the format has no infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opscope.harness.verdict.ordered_sums import dot
from opscope.harness.verdict.scores import SYSTEMATIC, Scores
from opscope.harness.verdict.tolerance import Tolerance

TINY = float(np.finfo(np.float32).tiny)
"""Smallest normal float32 (and bfloat16): hardware takes what is below as zero."""


LEAST = 64
"""Elements from which it can be told that values are not the golden's."""
UNRELATED = 0.5
"""Share of the golden's own variation that a result may lack: what saturates shrinks, what is replaced lacks all."""


@dataclass
class Sums:
    """What one pass over both arrays gathers; not finite values and flushed denormals count as zero."""

    count: int = 0
    finite: int = 0
    shift: float | None = None
    """About the golden's mean: moments are taken around it, so that a large mean costs no digits."""
    golden: float = 0.0
    got: float = 0.0
    golden_moment: float = 0.0
    got_moment: float = 0.0
    cross_moment: float = 0.0
    golden_squares: float = 0.0
    error_squares: float = 0.0
    largest_error: float = 0.0
    tiny: float = TINY
    """The golden's smallest normal number: what is smaller may be zero."""
    flushed: int = 0
    saturated: int = 0
    unequal: int = 0
    first_unequal: int = -1
    reason: str = ""
    wrong_at: int = -1
    """The element that `reason` speaks of."""


def gather(sums: Sums, start: int, g: np.ndarray, d: np.ndarray, row: Tolerance, scores: Scores | None = None) -> None:
    """Adds one chunk, which it may overwrite, to the sums and the scores. Sets `sums.reason` where NaN or infinity
    disagree."""
    sums.count += g.size
    sums.finite += g.size
    # A sum is finite only where every value is: float32 values cannot overflow it.
    if not (math.isfinite(g.sum()) and math.isfinite(d.sum())):
        g, d = settle(sums, start, g, d, row)
        if sums.reason:
            return
    zero, flushed = d == 0, np.zeros((), bool)
    signs = np.signbit(g) if row.signed_zeros else None
    if zero.any():
        flushed = zero & (np.abs(g) < sums.tiny) & (g != 0)
        sums.flushed += int(np.count_nonzero(flushed))
        g[flushed] = 0.0
    if row.flushed_golden:
        kept = (g == 0) & (np.abs(d) < sums.tiny) & ~zero
        sums.flushed += int(np.count_nonzero(kept))
        d[kept] = 0.0
    error = d - g
    wrong = error if signs is None else (error != 0) | (zero & (np.signbit(d) != signs) & ~flushed)
    if row.exact and wrong.any():
        unequal = np.flatnonzero(wrong)
        if sums.first_unequal < 0:
            sums.first_unequal = start + int(unequal[0])
        sums.unequal += unequal.size
    if scores is not None:
        scores.take(start, g, error)
    sums.golden_squares += dot(g, g)
    sums.error_squares += dot(error, error)
    sums.largest_error = max(sums.largest_error, float(error.max()), -float(error.min()))
    if sums.shift is None:
        sums.shift = float(g.mean())
    g -= sums.shift
    d -= sums.shift
    sums.golden += float(g.sum())
    sums.got += float(d.sum())
    sums.golden_moment += dot(g, g)
    sums.got_moment += dot(d, d)
    sums.cross_moment += dot(g, d)


def settle(sums: Sums, start: int, g: np.ndarray, d: np.ndarray, row: Tolerance) -> tuple[np.ndarray, np.ndarray]:
    """A chunk with zeros for what is not finite, once NaN and infinity agree; else `sums.reason` says where not."""
    inf_g, inf_d = np.sign(np.where(np.isinf(g), g, 0.0)), np.sign(np.where(np.isinf(d), d, 0.0))
    differs = (np.isnan(g) != np.isnan(d)) | (inf_g != inf_d)
    if row.saturates_at is not None and differs.any():
        huge = (np.abs(g) >= row.saturates_at) & (np.abs(d) >= row.saturates_at) & (np.sign(g) == np.sign(d))
        saturated = differs & huge
        sums.saturated += int(np.count_nonzero(saturated))
        differs &= ~saturated
    if differs.any():
        at = int(np.argmax(differs))
        sums.wrong_at = start + at
        sums.reason = f"NaN or Inf: {d[at]:.6g} instead of {g[at]:.6g} at element {start + at}"
    both = np.isfinite(g) & np.isfinite(d)
    sums.finite -= int(np.count_nonzero(~both))
    return np.where(both, g, 0.0), np.where(both, d, 0.0)


class _Moments(NamedTuple):
    """Sums of squares and of products of golden and result, each less its mean, over the finite values."""

    golden: float
    got: float
    cross: float
    spread: float
    """The golden's deviation over its root mean square."""

    @classmethod
    def of(cls, sums: Sums) -> _Moments:
        """Values that are not finite went in as zeros: their share is taken out again."""
        n, shift, zeros = sums.finite, sums.shift or 0.0, sums.count - sums.finite
        golden, got = sums.golden + zeros * shift, sums.got + zeros * shift
        squares_g = sums.golden_moment - zeros * shift**2 - golden**2 / n
        squares_d = sums.got_moment - zeros * shift**2 - got**2 / n
        cross = sums.cross_moment - zeros * shift**2 - golden * got / n
        return cls(squares_g, squares_d, cross, math.sqrt(max(squares_g, 0.0) / sums.golden_squares))


def pcc_of(sums: Sums, row: Tolerance) -> tuple[float | None, float]:
    """PCC over the finite values, and the golden's spread (deviation over root mean square).

    None if it means nothing: one side does not vary, or the golden varies by less than the tolerance resolves.
    """
    if sums.finite < 2 or not sums.golden_squares:
        return None, 0.0
    golden, got, cross, spread = _Moments.of(sums)
    floor = 1e-12 * max(sums.golden_moment, sums.got_moment)
    if golden <= floor or got <= floor or spread <= max(row.relative_l2, 1e-12):
        return None, spread
    return max(-1.0, min(1.0, cross / math.sqrt(golden * got))), spread


def unrelated(sums: Sums, resolution: float) -> str:
    """How a result that is near the golden on the whole has other values than its own, in words; empty if it has not.

    Errors know nothing of the golden, so that a result varies with it, however large they are beside what it varies by:
    the slope of the error along the golden less its mean is 0. In place of the golden's values others of their kind, or
    one value, have a slope of -1. Asked where the golden varies by more than `resolution`, relative, below which the
    target may store all of its values alike.
    """
    if sums.finite < LEAST or not sums.golden_squares:
        return ""
    golden, got, cross, spread = _Moments.of(sums)
    if spread <= max(resolution, 1e-12) or golden <= 1e-12 * max(sums.golden_moment, sums.got_moment):
        return ""
    slope, rest = cross / golden, math.sqrt(max(0.0, got - cross**2 / golden) / golden)
    least = 1 - max(UNRELATED, SYSTEMATIC * sums.finite**-0.25 * rest)
    return (
        "" if slope >= least else f"expected values that vary with the golden's, by {least:.2g} of it, got {slope:.2g}"
    )
