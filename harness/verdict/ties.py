"""Equal values: an unstable sort may give them, and their payloads, in any order; any may be picked as the largest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
    golden: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    params: Mapping[str, str],
    checks: Sequence[ResultCheck],
    in_order: Callable[[Sequence[np.ndarray]], bool] = lambda got: True,
) -> list[ResultCheck]:
    """The checks, passed where a sort that is not stable only gave equal keys, or their payloads, in another order.

    The keys are the results whose values are equal as they stand; each line must hold the same pairs, zeros and NaN
    with their signs, in an order that the comparator takes (`in_order`).
    """
    checks = list(checks)
    if params.get("is_stable", "false") == "true" or len(golden) != len(got):
        return checks
    if any(g.shape != d.shape or g.dtype != d.dtype for g, d in zip(golden, got, strict=True)):
        return checks
    keys = [number for number, (g, d) in enumerate(zip(golden, got, strict=True)) if np.all(_same(g, d))]
    wrong = [number for number, check in enumerate(checks) if not check.passed]
    if not keys or not golden[0].size:
        return checks
    axis = int(str(params.get("dimension", -1)).partition(":")[0])
    if not np.all(_same(_lines(golden, keys, axis), _lines(got, keys, axis))) or not in_order(got):
        return checks
    for number in wrong:
        checks[number] = _passed(checks[number])
    return checks


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where two arrays have the same values, or NaN both."""
    return np.asarray((one == other) | ((one != one) & (other != other)))


def _lines(side: Sequence[np.ndarray], keys: Sequence[int], axis: int) -> np.ndarray:
    """Each line of the results, sorted within runs of equal keys: values as float64, then the signs of floats."""
    columns = [np.moveaxis(array, axis, -1) for array in side]
    columns = [array.reshape(-1, array.shape[-1]).astype(np.float64) for array in columns]
    # Runs are numbered along the line: keys may be sorted either way.
    changed = np.any([~_same(columns[number][:, 1:], columns[number][:, :-1]) for number in keys], axis=0)
    runs = np.concatenate([np.zeros((len(changed), 1)), np.cumsum(changed, axis=1)], axis=1)
    columns += [np.signbit(column).astype(np.float64) for column in columns]
    orders = (np.lexsort([*(column[line] for column in reversed(columns)), runs[line]]) for line in range(len(runs)))
    order = np.stack(list(orders))
    return np.stack([np.take_along_axis(column, order, axis=1) for column in columns])
