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


def without_denormals(inputs: Sequence[np.ndarray], *, signed: bool = False) -> list[np.ndarray] | None:
    """The inputs with denormals as zero, as the device reads them, or of their sign; None if there are none."""
    flushed, any_flushed = [], False
    for x in inputs:
        if not is_float(x) or x.dtype.kind == "c" or x.dtype.itemsize < 2:
            flushed.append(x)
            continue
        tiny = smallest_normal(x.dtype)
        with np.errstate(invalid="ignore"):  # bfloat16 compares a NaN with a warning
            denormal = (np.abs(x) < x.dtype.type(tiny)) & (x != 0)
        any_flushed |= bool(denormal.any())
        zero = np.copysign(x.dtype.type(0), x) if signed else x.dtype.type(0)
        flushed.append(np.where(denormal, zero, x))
    return flushed if any_flushed else None


def has_denormals(arrays: Sequence[np.ndarray]) -> bool:
    """Whether a number that XLA's CPU takes for zero is among some floats, or parts of complex numbers: a denormal, but
    of float16, which it computes in float32, and of narrower types."""
    for x in arrays:
        if not is_float(x) or x.dtype == np.float16 or x.dtype.itemsize < 2:
            continue
        part = np.ascontiguousarray(x).reshape(-1)
        part = part.view(np.float32 if x.dtype == np.complex64 else np.float64) if x.dtype.kind == "c" else part
        with np.errstate(invalid="ignore"):  # bfloat16 casts a NaN with a warning
            size = np.abs(part).astype(np.float64)
        if bool(((size < smallest_normal(part.dtype)) & (size != 0)).any()):
            return True
    return False


def cut_to(x: np.ndarray, bits: int) -> np.ndarray:
    """Float64 values, each cut toward zero to so many fraction bits."""
    fractions, exponents = np.frexp(x)
    return np.where(np.isfinite(x), np.ldexp(np.trunc(np.ldexp(fractions, bits + 1)), exponents - bits - 1), x)


def rounded_away(x: np.ndarray, bits: int) -> np.ndarray:
    """Float64 values, each rounded to so many fraction bits, ties away from zero."""
    fractions, exponents = np.frexp(x)
    places = np.trunc(np.ldexp(fractions, bits + 1) + np.copysign(0.5, x))
    return np.where(np.isfinite(x), np.ldexp(places, exponents - bits - 1), x)
