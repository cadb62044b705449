"""Sums over a result and its golden in one pass: relative L2, PCC, and where NaN and infinity stand.

All arithmetic is float64, in chunks that fit a cache. Legal on this hardware and only counted: flushed denormals, and
infinity against a huge value where the format has no infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opscope.harness.verdict.ordered_sums import dot
from opscope.harness.verdict.scores import Scores
from opscope.harness.verdict.tolerance import Tolerance

TINY = float(np.finfo(np.float32).tiny)
"""Smallest normal float32 (and bfloat16): hardware takes what is below as zero."""


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


def pcc_of(sums: Sums, row: Tolerance) -> tuple[float | None, float]:
    """PCC over the finite values, and the golden's spread (deviation over root mean square).

    None if it means nothing: one side does not vary, or the golden varies by less than the tolerance resolves.
    """
    n, shift = sums.finite, sums.shift or 0.0
    if n < 2 or not sums.golden_squares:
        return None, 0.0
    # Values that are not finite went in as zeros: take their share of the moments out again.
    zeros = sums.count - n
    golden, got = sums.golden + zeros * shift, sums.got + zeros * shift
    squares_g = sums.golden_moment - zeros * shift**2 - golden**2 / n
    squares_d = sums.got_moment - zeros * shift**2 - got**2 / n
    cross = sums.cross_moment - zeros * shift**2 - golden * got / n
    spread = math.sqrt(max(squares_g, 0.0) / sums.golden_squares)
    floor = 1e-12 * max(sums.golden_moment, sums.got_moment)
    if squares_g <= floor or squares_d <= floor or spread <= max(row.relative_l2, 1e-12):
        return None, spread
    return max(-1.0, min(1.0, cross / math.sqrt(squares_g * squares_d))), spread
