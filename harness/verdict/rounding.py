"""Exact rules about rounding: what a conversion may give, and what remains of operands whose denormals are zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.harness.prepare.operand_sizes import is_float


def smallest_normal(dtype: np.dtype) -> float:
    """The smallest number of a float type that is no denormal; of narrow types with 8 exponent bits float32's."""
    return float(np.finfo(dtype if dtype in (np.float16, np.float64) else np.float32).tiny)


def legal_conversion(x: np.ndarray, golden: np.ndarray, got: np.ndarray) -> str | None:
    """Why `got` is no rounding to nearest of `x`; empty if it is one, None if the result is no float or `x` is of
    numbers that double precision does not hold.

    Golden and device both round to nearest, and may differ where `x` lies in the middle of two numbers (XLA takes the
    even one, the packer the one away from zero): no element may be farther from `x` than the golden is. Denormals may
    become zero.
    """
    if not is_float(golden) or "c" in (x.dtype.kind, golden.dtype.kind) or (x.dtype.kind in "iu" and x.itemsize > 4):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        source, right, device = (np.ravel(array).astype(np.float64) for array in (x, golden, got))
        tiny = smallest_normal(golden.dtype)
        farther = np.abs(source - device) > np.abs(source - right)
        farther &= ~((np.abs(right) < tiny) & (device == 0))
        # What rounds up to infinity was checked with the other values that are not finite.
        farther &= np.isfinite(right) & np.isfinite(device)
    if not farther.any():
        return ""
    at = int(np.argmax(farther))
    return (
        f"{int(np.count_nonzero(farther))} of {golden.size} values are not rounded to nearest: "
        f"{source[at]:.9g} became {device[at]:.9g}, expected {right[at]:.9g}, at element {at}"
    )


def without_denormals(inputs: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The inputs with denormals as zero, as the device reads them; None if there are none."""
    flushed, any_flushed = [], False
    for x in inputs:
        if not is_float(x) or x.dtype.kind == "c" or x.dtype.itemsize < 2:
            flushed.append(x)
            continue
        tiny = smallest_normal(x.dtype)
        with np.errstate(invalid="ignore"):  # bfloat16 compares a NaN with a warning
            denormal = (np.abs(x) < x.dtype.type(tiny)) & (x != 0)
        any_flushed |= bool(denormal.any())
        flushed.append(np.where(denormal, x.dtype.type(0), x))
    return flushed if any_flushed else None


def has_double_denormals(arrays: Sequence[np.ndarray]) -> bool:
    """Whether a number of double precision, or a part of one, is a denormal."""
    doubles = [np.ravel(x).view(np.float64) for x in arrays if x.dtype in (np.float64, np.complex128)]
    return any(bool(((np.abs(x) < smallest_normal(x.dtype)) & (x != 0)).any()) for x in doubles)
