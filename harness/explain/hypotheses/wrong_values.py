"""Hypotheses about values that are wrong in the same way everywhere: sign, factor, offset, NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from opscope.harness.explain.hypotheses.evidence import FITS, At, Evidence, of_array

LEAST = 8
"""Wrong elements from which one number that is taken from them explains anything."""
SURE = 8.0
"""Standard errors by which a factor of all elements must differ from 1, where no single element is beyond its limit."""
SPREAD = 0.3
"""Spread of the relative errors, over their median, up to which they are one factor. Truncation makes them anything
between nothing and the last bit: 0.5 and more."""

KINDS = {"nan": "NaN", "+inf": "+Inf", "-inf": "-Inf", "finite": "a number"}


def not_finite(evidence: Evidence) -> str | None:
    """NaN and infinity stand where something else is expected, or the other way round."""
    golden, got = (
        _kind(part) for part in (evidence.golden_values(evidence.wrong_at), evidence.got_values(evidence.wrong_at))
    )
    if not golden.size:
        return None
    pairs, counts = np.unique(np.stack([golden, got]), axis=1, return_counts=True)
    most = int(np.argmax(counts))
    expected, device = (str(name) for name in pairs[:, most])
    share = counts[most] / golden.size
    if expected == device or share < FITS:
        return None
    count = round(share * evidence.wrong_count)
    said = f"{KINDS[device]} stands where {KINDS[expected]} is expected: {evidence.share(count)}"
    at = tuple(axis[(golden == expected) & (got == device)] for axis in evidence.wrong_at)
    if expected == "finite":
        least = np.abs(evidence.golden_values(at)).min()
        return f"{said}, none smaller than {least:.3g}"
    if device == "finite":
        values = np.unique(evidence.got_values(at))
        return f"{said}, {values[0]:.6g} in all of them" if values.size == 1 else said
    return said


def _kind(values: np.ndarray) -> np.ndarray:
    values = np.real(values) + np.imag(values) if values.dtype.kind == "c" else values
    return np.where(
        np.isnan(values), "nan", np.where(values == np.inf, "+inf", np.where(values == -np.inf, "-inf", "finite"))
    )


def sign(evidence: Evidence) -> str | None:
    """The sign is turned, or lost."""
    if not evidence.wrong_count or not evidence.explains_wrong(lambda at: -evidence.golden_values(at)):
        return None
    expected = evidence.golden_values(evidence.wrong_at)
    if expected.dtype.kind != "c" and evidence.wrong_count >= LEAST:
        if evidence.explains(of_array(np.abs(evidence.golden))):
            return f"every value lost its minus sign: {evidence.share(evidence.wrong_count)}"
        if evidence.explains(of_array(-evidence.golden)):
            return f"every value has the other sign: {evidence.share(evidence.wrong_count)} are beyond their limit"
    return f"the sign is turned in {evidence.share(evidence.wrong_count)}"


def factor(evidence: Evidence) -> str | None:
    """Everything is multiplied by one number."""
    if evidence.golden.dtype.kind not in "fV" or "int" in evidence.golden.dtype.name:
        return None
    if evidence.wrong_count >= LEAST and evidence.finite:
        golden, got = evidence.golden_values(evidence.wrong_at), evidence.got_values(evidence.wrong_at)
        large = np.abs(golden) > np.quantile(np.abs(golden), 0.5)
        if large.sum() >= LEAST // 2:
            ratios = got[large] / golden[large]
            ratio = float(np.median(ratios))
            low, high = np.quantile(ratios, (0.25, 0.75))

            def predict(at: At) -> np.ndarray:
                return ratio * evidence.golden_values(at)

            if (
                high - low <= SPREAD * abs(ratio - 1)
                and ratio not in (0.0, 1.0, -1.0)
                and evidence.explains_wrong(predict, _rounding(evidence, predict))
            ):
                return _factor_text(evidence, ratio, evidence.wrong_count)
    return _factor_of_all(evidence)


def _factor_of_all(evidence: Evidence) -> str | None:
    """One factor of all elements that is too near to 1 for most single ones to show it."""
    golden, got, size = _all(evidence)
    if golden.size < LEAST * LEAST:
        return None
    weight = np.where(size > 0, 1 / np.maximum(size, 1e-300) ** 2, 0.0)
    if not weight.any():
        return None
    squares = float((weight * golden**2).sum())
    ratio = float((weight * golden * got).sum()) / squares
    rest = (got - ratio * golden) * np.sqrt(weight)
    error = math.sqrt(float(np.mean(rest**2)) / squares) * golden.size**0.25
    large = np.abs(golden) >= np.quantile(np.abs(golden), 0.5)
    relative = (got[large] - golden[large]) / golden[large]
    low, median, high = np.quantile(relative, (0.25, 0.5, 0.75))
    constant = abs(median) > 0 and (high - low) / abs(median) <= SPREAD
    if not constant or abs(ratio - 1) < SURE * error or np.count_nonzero(np.abs(rest) > 1) > (1 - FITS) * golden.size:
        return None
    return _factor_text(evidence, ratio, evidence.golden.size)


def _all(evidence: Evidence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A sample of all finite elements: golden, result, and how large an error may be."""
    at = evidence.all_at
    golden, got, size = evidence.golden_values(at), evidence.got_values(at), evidence.allowed(at)
    use = np.isfinite(golden) & np.isfinite(got) & (golden != 0)
    return golden[use], got[use], size[use]


def _factor_text(evidence: Evidence, ratio: float, count: int) -> str:
    exponent = math.log2(abs(ratio))
    power = f" (2^{round(exponent)})" if abs(exponent - round(exponent)) < 1e-3 and round(exponent) else ""
    inverse = (
        f" (1/{1 / ratio:.4g})"
        if not power and abs(1 / ratio) > 1.5 and abs(1 / ratio - round(1 / ratio)) < 1e-3
        else ""
    )
    alike = count == evidence.golden.size
    these, they = ("everything is", "it") if alike else (f"{evidence.share(count)} are", "they")
    return f"{these} {ratio:.5g}{power}{inverse} times what {they} should be"


def _rounding(evidence: Evidence, predict: Callable[[At], np.ndarray]) -> Callable[[At], np.ndarray]:
    """How far a prediction may be off that was rounded once more: by its own size, not by the golden's."""
    unit = np.finfo(np.float32).eps if evidence.golden.dtype.itemsize >= 4 else 2.0**-8
    return lambda at: np.abs(predict(at)) * unit * (evidence.golden.dtype.kind in "fV")


def offset(evidence: Evidence) -> str | None:
    """One number is added to everything."""
    if evidence.wrong_count < LEAST or not evidence.finite:
        return None
    golden, got = evidence.golden_values(evidence.wrong_at), evidence.got_values(evidence.wrong_at)
    added = float(np.median(got - golden))
    if added == 0 or np.ptp(golden) <= abs(added) * 1e-9:
        return None

    def predict(at: At) -> np.ndarray:
        return evidence.golden_values(at) + added

    if not evidence.explains_wrong(predict, _rounding(evidence, predict)):
        return None
    where = (
        "everything" if evidence.wrong_count >= FITS * evidence.golden.size else evidence.share(evidence.wrong_count)
    )
    return f"{where} is {abs(added):.5g} too {'large' if added > 0 else 'small'}"
