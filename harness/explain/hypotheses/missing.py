"""Hypotheses about parts of a result that were not computed: zeros, stale values, one value everywhere."""

from __future__ import annotations

import numpy as np

from opscope.harness.explain.heat_cells import FACE, TILE, region
from opscope.harness.explain.hypotheses.evidence import FITS, At, Evidence, of_array
from opscope.harness.explain.operand_elements import number_text

SEVERAL = 4
"""Wrong elements from which one value in all of them is no chance."""


def missing(evidence: Evidence) -> str | None:
    """The wrong elements are zero: a row, batch entry, tile or face was not written, or small values were lost.

    Tiles and faces are spoken of where the target has them.
    """
    zero = np.asarray(evidence.got == 0)
    lost = evidence.suspects & zero
    count = int(np.count_nonzero(lost))
    if not count or count < FITS * evidence.wrong_count:
        return None
    if place := region(lost, zero, evidence.tiled):
        return f"zeros throughout {place}, where {_range(evidence, lost)} is expected"
    size = np.abs(np.nan_to_num(evidence.golden[evidence.got != 0].astype(np.complex128), nan=np.inf))
    largest = float(np.max(np.abs(evidence.golden[lost].astype(np.complex128))))
    if size.size and count >= SEVERAL and largest <= float(size.min()):
        return f"values of at most {largest:.3g} are zero: {evidence.share(count)}, and none that is larger"
    where = ", in no tile, face or row of their own" if evidence.tiled else ", in no row of their own"
    where = where if count >= SEVERAL else ""
    return f"{evidence.share(count)} are zero{where}, where {_range(evidence, lost)} is expected"


def _range(evidence: Evidence, mask: np.ndarray) -> str:
    expected = evidence.golden[mask]
    least, most = number_text(expected.min()), number_text(expected.max())
    return least if least == most else f"{least} to {most}"


def constant(evidence: Evidence) -> str | None:
    """The wrong elements all hold one value, which is not zero."""
    if evidence.wrong_count < SEVERAL:
        return None
    got = evidence.got_values(evidence.wrong_at)
    value = got[0]
    same = (got == value) | (np.isnan(got) & np.isnan(value))
    expected = evidence.golden_values(evidence.wrong_at)
    if value == 0 or not np.isfinite(value) or same.mean() < FITS or np.ptp(np.abs(expected)) == 0:
        return None
    repeated = np.asarray(evidence.got == evidence.got[tuple(axis[0] for axis in evidence.wrong_at)])
    place = region(evidence.suspects, repeated, evidence.tiled)
    return f"{number_text(value)} stands throughout {place or evidence.share(evidence.wrong_count)}"


def clipped(evidence: Evidence) -> str | None:
    """Values beyond a bound were cut to it."""
    if evidence.wrong_count < SEVERAL or not evidence.finite:
        return None
    golden, got = evidence.golden_values(evidence.wrong_at), evidence.got_values(evidence.wrong_at)
    low, high = (float(bound) for bound in (got.min(), got.max()))
    if low == high and (np.abs(golden) < abs(low)).any():
        return None

    def predict(at: At) -> np.ndarray:
        return np.clip(
            evidence.golden_values(at),
            low if (golden < low).any() else -np.inf,
            high if (golden > high).any() else np.inf,
        )

    beyond = np.where(golden > high, high, np.where(golden < low, low, np.nan))
    if (beyond == got).mean() < FITS or not evidence.explains_wrong(predict):
        return None
    bounds = [f"above {high:.6g}"] * bool((golden > high).any()) + [f"below {low:.6g}"] * bool((golden < low).any())
    return f"values {' and '.join(bounds)} are cut to that bound: {evidence.share(evidence.wrong_count)}"


def stale(evidence: Evidence) -> str | None:
    """The wrong elements hold what was in memory before: an input, or what belongs to a neighbouring place."""
    if evidence.wrong_count < SEVERAL:
        return None
    for number, x in enumerate(evidence.inputs):
        if x.shape == evidence.shape and x.dtype == evidence.golden.dtype and evidence.explains_wrong(of_array(x)):
            holds = _equal(evidence, x)
            return f"input {number} stands unchanged in {_place(evidence, holds)}"
    for name, axis, step in _neighbours(evidence.shape, evidence.tiled):
        moved = np.roll(evidence.golden, step, axis)
        if evidence.explains_wrong(of_array(moved)):
            holds = _equal(evidence, moved)
            side = "before" if step > 0 else "after"
            return f"what belongs in the {name} {side} it stands in {_place(evidence, holds)}"
    return None


def _neighbours(shape: tuple[int, ...], tiled: bool) -> list[tuple[str, int, int]]:
    """Structures beside another one: name, axis, elements from one to the next."""
    rank, sums = len(shape), []
    for axis in range(rank):
        back = rank - axis
        on_tiles = [("tile", TILE), ("face", FACE)] if tiled else []
        steps = {1: on_tiles, 2: [*on_tiles, ("row", 1)]}.get(back, [("batch entry", 1)])
        for name, step in steps:
            if shape[axis] > step:
                sums += [(name, axis, step), (name, axis, -step)]
    return sums


def _equal(evidence: Evidence, other: np.ndarray) -> np.ndarray:
    """Where the result holds what another array holds, within the limits of the result."""
    errors = evidence.errors
    with np.errstate(invalid="ignore"):
        if errors.scale is None or errors.limit is None:
            return np.asarray(evidence.got == other)
        return np.abs(evidence.got.astype(np.float32) - other.astype(np.float32)) <= errors.limit * errors.scale


def _place(evidence: Evidence, holds: np.ndarray) -> str:
    return region(evidence.suspects, holds, evidence.tiled) or evidence.share(evidence.wrong_count)
