"""Equal values: an unstable sort may give their payloads in any order, and any of them may be picked as the largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from opscope.harness.formulas import attributes
from opscope.harness.record.records import ResultCheck

PICKS = frozenset(f"tenstorrent.{name}" for name in ("topk", "topk_values", "topk_indices", "argmax"))
"""Composites that pick values of their operand, and say where they stand, without an order of equal ones."""


def picks(params: Mapping[str, str]) -> bool:
    """Whether a composite picks values of its operand."""
    return params.get("name", "").strip('"') in PICKS


def picked(
    x: np.ndarray,
    golden: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    params: Mapping[str, str],
    checks: Sequence[ResultCheck],
) -> list[ResultCheck]:
    """The checks, passed where indices into `x` only name other places of the same values, none of them twice."""
    axis = attributes.read(params.get("composite_attributes", "")).get("dim", -1)
    checks = list(checks)
    for number, (right, device) in enumerate(zip(golden, got, strict=False)):
        fits = right.shape == device.shape and right.dtype == device.dtype and right.dtype.kind in "iu"
        if not checks[number].passed and fits and _same_values(x, right, device, axis):
            checks[number] = _passed(checks[number])
    return checks


def _same_values(x: np.ndarray, right: np.ndarray, device: np.ndarray, axis: int) -> bool:
    """Whether indices along a dim, which the result may lack, name equal values, and each place once."""
    right, device = (np.expand_dims(each, axis) if each.ndim < x.ndim else each for each in (right, device))
    if device.ndim != x.ndim or not ((device >= 0) & (device < x.shape[axis])).all():
        return False
    ordered = np.sort(device, axis=axis)
    if (np.diff(ordered, axis=axis) == 0).any():
        return False
    values, picked_values = (
        np.take_along_axis(x, each.astype(np.int64), axis).astype(np.float64) for each in (right, device)
    )
    return np.array_equal(values, picked_values, equal_nan=True)


def _passed(check: ResultCheck) -> ResultCheck:
    """A check that only equal values failed."""
    flags = tuple(dict.fromkeys((*check.flags, "ties")))
    return check.model_copy(update={"passed": True, "reason": "", "question": "", "flags": flags})


def excused(
    golden: Sequence[np.ndarray], got: Sequence[np.ndarray], params: Mapping[str, str], checks: Sequence[ResultCheck]
) -> list[ResultCheck]:
    """The checks, passed where a sort that is not stable only gave equal keys' payloads in another order.

    The keys are the results that are equal as they stand; each line of the payloads must hold the same pairs.
    """
    checks = list(checks)
    if params.get("is_stable", "false") == "true" or len(golden) != len(got):
        return checks
    if any(g.shape != d.shape or g.dtype != d.dtype for g, d in zip(golden, got, strict=True)):
        return checks
    keys = [number for number, (g, d) in enumerate(zip(golden, got, strict=True)) if np.array_equal(g, d)]
    rest = [number for number in range(len(golden)) if number not in keys]
    if not keys or not rest:
        return checks
    axis = int(str(params.get("dimension", -1)).partition(":")[0])
    if not np.array_equal(_lines(golden, keys, rest, axis), _lines(got, keys, rest, axis)):
        return checks
    for number in rest:
        checks[number] = _passed(checks[number])
    return checks


def _lines(side: Sequence[np.ndarray], keys: Sequence[int], rest: Sequence[int], axis: int) -> np.ndarray:
    """Each line of the payloads, sorted within runs of equal keys, as float64."""
    columns = [np.moveaxis(array, axis, -1) for array in side]
    columns = [array.reshape(-1, array.shape[-1]).astype(np.float64) for array in columns]
    # Runs are numbered along the line: keys may be sorted either way.
    changed = np.any([np.diff(columns[number], axis=1) != 0 for number in keys], axis=0)
    runs = np.concatenate([np.zeros((len(changed), 1)), np.cumsum(changed, axis=1)], axis=1)
    orders = (np.lexsort([*(columns[n][line] for n in reversed(rest)), runs[line]]) for line in range(len(runs)))
    order = np.stack(list(orders))
    return np.stack([np.take_along_axis(columns[number], order, axis=1) for number in rest])
