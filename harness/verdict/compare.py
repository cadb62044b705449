"""The verdict on numbers: is what came back right, given what the requested target computes in?

In order: result count, shape and element type; NaN position; infinity position and sign; exact values where the
tolerance says so; relative L2, of all and without outliers; the relative error of most elements; guarded PCC.
All arithmetic is float64, in chunks that fit a cache. Legal on this hardware and only flagged: flushed denormals
(`denormal_flush`), and infinity against a huge value where the format has no infinity (`saturated`). Elements of a sum
whose terms cancel are judged by the size of these terms (`cancellation`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opscope.base.op_families import PRODUCTS, op_family
from opscope.harness.record.element_types import NUMPY_NAMES
from opscope.harness.record.records import PRODUCTS_IN_A_ROW, ResultCheck, TensorDesc
from opscope.harness.verdict.target import Target
from opscope.harness.verdict.tolerance import SUM_BODY, SUMMING_KINDS, Tolerance, inner_size, tolerance

_MLIR_NAMES = {numpy: mlir for mlir, numpy in NUMPY_NAMES.items() if mlir != "tf32"}
OUTLIER = 100.0
"""An element is an outlier where it is larger than so many times the median: a mask of -1e4 hides all else in an L2."""
MOST = 0.95
"""Share of the elements that must be right by themselves where each element's error is its own. Of the sums of random
signs, one in forty is so much smaller than its terms that an honest error of them is ten times the limit."""
TRUNCATES = 0.72 * (2**-11 + 2**-10)
"""What a product of Float32 loses on the mean: the matrix unit drops 13 bits of one operand and 14 of the other, each
half of the last bit that is left, by 0.72 in a mantissa (spread as 1/m). PyTorch's own ResNet-50, its operands cut like
that, ends 2.9 % short after 50 products, and 0.26 % off otherwise."""
BULK_MARGIN = 4.0
"""So many times the relative L2 may be that of the elements without outliers."""
CANCELS = 0.25
"""An element cancels where it is smaller than this share of the root sum of squares of its terms. Honest errors of the
terms add up to that root times an operand's error, a sixth of what the tolerance allows (Float32 as TF32: 6e-4 of
4e-3): above a quarter of it they fit into the tolerance of the element itself."""
_CHUNK = 1 << 14
_SAMPLE = 1 << 19
_TINY, _TINY_F16 = float(np.finfo(np.float32).tiny), float(np.finfo(np.float16).tiny)
"""Smallest normal float32 (and bfloat16), float16: hardware takes what is below as zero."""


def compare(
    golden: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    op_name: str,
    target: Target,
    *,
    inputs: Sequence[TensorDesc] = (),
    outputs: Sequence[TensorDesc] = (),
    params: Mapping[str, str] | None = None,
    term_sizes: Callable[[], Sequence[np.ndarray]] | None = None,
) -> list[ResultCheck]:
    """One check per result. `inputs`, `outputs` and `params` (the op's) say over how many products it sums.

    `term_sizes` gives, for each element of each result, the root sum of squares of the terms that it is a sum of
    (`opscope.harness.verdict.terms`). It is called only where a sum came out wrong.
    """
    kind, params = op_family(op_name), params or {}
    inner = inner_size(kind, inputs, outputs, params)
    body = params.get("body")
    sums = kind in PRODUCTS or (kind in SUMMING_KINDS and body == SUM_BODY)
    ulp = target.error_bound(op_name) if target.error_bound else None
    checks = []
    for index in range(max(len(golden), len(got))):
        if index >= len(golden) or index >= len(got):
            checks.append(_refused("count", f"expected {len(golden)} results, got {len(got)}"))
            continue
        name = outputs[index].data_type if index < len(outputs) else _element_type(golden[index].dtype)
        row = tolerance(target, kind, name, inner, op_name=op_name, body=body, ulp=ulp)
        result = check(golden[index], got[index], row)
        if not result.passed and result.max_abs is not None and sums and term_sizes and not row.exact:
            result = check_cancelling(golden[index], got[index], row, term_sizes()[index], result)
        if not result.passed and row.truncates and (products := int(params.get(PRODUCTS_IN_A_ROW, 0))):
            result = check_truncated(golden[index], got[index], row, products, result)
        checks.append(result)
    return checks


def check_cancelling(
    golden: np.ndarray, got: np.ndarray, row: Tolerance, terms: np.ndarray, plain: ResultCheck
) -> ResultCheck:
    """The verdict on a sum that is wrong by `plain`, some of whose elements may have cancelled.

    Those that did are judged by the size of their `terms`, all others by themselves, as if the former were not there.
    """
    g, d, size = (array.astype(np.float64).ravel() for array in (golden, got, terms))
    with np.errstate(invalid="ignore"):
        cancelled = np.isfinite(size) & np.isfinite(g) & (np.abs(g) < CANCELS * size)
    if not cancelled.any():
        return plain
    error, size = np.abs(d - g)[cancelled], size[cancelled]
    relative, median = float(np.linalg.norm(error) / np.linalg.norm(size)), float(np.median(error / size))
    if not (relative <= row.relative_l2 and median <= row.single):
        reason = f"expected at most {row.relative_l2:.3g} of its terms, got {relative:.3g} (median {median:.3g})"
        return plain.model_copy(update={"reason": f"cancelling sum: {reason}"})
    rest = check(golden.ravel()[~cancelled], got.ravel()[~cancelled], row)
    flags = tuple(dict.fromkeys((*plain.flags, *rest.flags, "cancellation")))
    return plain.model_copy(update={"passed": rest.passed, "reason": rest.reason, "flags": flags})


def check_truncated(
    golden: np.ndarray, got: np.ndarray, row: Tolerance, products: int, plain: ResultCheck
) -> ResultCheck:
    """The verdict on a whole model's result that is wrong by `plain`, after so many `products` in a row.

    Truncation makes each of them smaller, never larger, and nothing but a norm takes that back. A result that is no
    shorter along its golden than so many truncations make it is judged by its direction, as if it had its length.
    """
    g, d = golden.astype(np.float64).ravel(), got.astype(np.float64).ravel()
    with np.errstate(invalid="ignore", divide="ignore"):
        length = float(g @ d) / float(g @ g) if g.any() else math.nan
    if not 1 - products * TRUNCATES <= length < 1:
        return plain
    rest = check(golden, (d / length).astype(golden.dtype).reshape(golden.shape), row)
    flags = tuple(dict.fromkeys((*plain.flags, *rest.flags, "truncation")))
    return plain.model_copy(update={"passed": rest.passed, "reason": rest.reason, "flags": flags})


def check(golden: np.ndarray, got: np.ndarray, row: Tolerance) -> ResultCheck:
    """Compares one result with its golden under one row of the tolerance table."""
    if golden.shape != got.shape:
        return _refused(row.name, f"shape: expected {_shape(golden)}, got {_shape(got)}")
    if golden.dtype != got.dtype:
        kinds = _element_type(golden.dtype), _element_type(got.dtype)
        return _refused(row.name, f"element type: expected {kinds[0]}, got {kinds[1]}")
    if golden.size == 0:
        return ResultCheck(passed=True, pcc=None, relative_l2=0.0, max_abs=0.0, tolerance=row.name)
    if _is_discrete(golden.dtype):
        return _check_discrete(golden, got, row)
    if golden.dtype.kind == "c":
        part = np.float32 if golden.dtype == np.complex64 else np.float64
        golden, got = np.ascontiguousarray(golden).view(part), np.ascontiguousarray(got).view(part)
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinity are checked for explicitly
        return _check_floats(np.ravel(golden), np.ravel(got), row)


def _check_discrete(golden: np.ndarray, got: np.ndarray, row: Tolerance) -> ResultCheck:
    """Integers and booleans: equal or wrong."""
    wrong = golden != got
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return ResultCheck(passed=True, pcc=None, relative_l2=0.0, max_abs=0.0, tolerance=row.name)
    first = int(np.argmax(wrong))
    g, d = golden.flat[first], got.flat[first]
    largest = float(np.max(np.abs(golden[wrong].astype(np.float64) - got[wrong].astype(np.float64))))
    reason = f"{count} of {golden.size} values differ: expected {g}, got {d} at {_place(first, golden.shape)}"
    return ResultCheck(passed=False, pcc=None, relative_l2=None, max_abs=largest, tolerance=row.name, reason=reason)


# --- floats


@dataclass
class _Sums:
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
    tiny: float = _TINY
    """The golden's smallest normal number: what is smaller may be zero."""
    flushed: int = 0
    saturated: int = 0
    unequal: int = 0
    first_unequal: int = -1
    reason: str = ""


def _check_floats(golden: np.ndarray, got: np.ndarray, row: Tolerance) -> ResultCheck:
    sums = _Sums(tiny=_TINY_F16 if golden.dtype == np.float16 else _TINY)
    for start in range(0, golden.size, _CHUNK):
        end = start + _CHUNK
        _gather(sums, start, golden[start:end].astype(np.float64), got[start:end].astype(np.float64), row)
        if sums.reason:
            return _refused(row.name, sums.reason)
    flags = tuple(name for name, count in (("denormal_flush", sums.flushed), ("saturated", sums.saturated)) if count)
    norm, error = math.sqrt(sums.golden_squares), math.sqrt(sums.error_squares)
    relative = error / norm if norm else (0.0 if error == 0 else math.inf)
    pcc, spread = _pcc(sums, row)
    reason = _verdict(golden, got, sums, row, pcc, spread)
    return ResultCheck(
        passed=not reason,
        pcc=pcc,
        relative_l2=relative if math.isfinite(relative) else None,
        max_abs=sums.largest_error,
        tolerance=row.name,
        reason=reason,
        flags=flags,
    )


def _verdict(golden: np.ndarray, got: np.ndarray, sums: _Sums, row: Tolerance, pcc: float | None, spread: float) -> str:
    """Why the result is wrong; empty if it is right."""
    if row.exact:
        if not sums.unequal:
            return ""
        at = sums.first_unequal
        return f"{sums.unequal} of {sums.count} values differ: expected {golden[at]}, got {got[at]} at element {at}"
    if sums.golden_squares == 0:
        if sums.largest_error <= row.relative_l2:
            return ""
        return f"golden is all zero: expected at most {row.relative_l2:.3g}, got {sums.largest_error:.3g}"
    relative = math.sqrt(sums.error_squares / sums.golden_squares)
    if not relative <= row.relative_l2:
        return f"relative L2: expected at most {row.relative_l2:.3g}, got {relative:.3g}"
    if relative > 0:
        share, error, bulk = _robust_errors(golden, got, row)
        if error > row.single:
            return f"relative error of {share:.0%} of the elements: expected at most {row.single:.3g}, got {error:.3g}"
        if row.by_element and bulk > BULK_MARGIN * row.relative_l2:
            return f"relative L2 without outliers: expected at most {BULK_MARGIN * row.relative_l2:.3g}, got {bulk:.3g}"
    if pcc is not None:
        # An honest error, half of what relative_l2 allows, on values that vary little costs this much correlation.
        required = min(row.pcc, 1 - (row.relative_l2 / spread) ** 2 / 4)
        if not pcc >= required:
            return f"PCC: expected at least {required:.6g}, got {pcc:.6g}"
    return ""


def _gather(sums: _Sums, start: int, g: np.ndarray, d: np.ndarray, row: Tolerance) -> None:
    """Adds one chunk, which it may overwrite. Sets `sums.reason` where NaN or infinity disagree."""
    sums.count += g.size
    sums.finite += g.size
    # A sum is finite only where every value is: float32 values cannot overflow it.
    if not (math.isfinite(g.sum()) and math.isfinite(d.sum())):
        g, d = _settle(sums, start, g, d, row)
        if sums.reason:
            return
    zero = d == 0
    if zero.any():
        small = zero & (np.abs(g) < sums.tiny) & (g != 0)
        sums.flushed += int(np.count_nonzero(small))
        g[small] = 0.0
    error = d - g
    if row.exact and error.any():
        unequal = np.flatnonzero(error)
        if sums.first_unequal < 0:
            sums.first_unequal = start + int(unequal[0])
        sums.unequal += unequal.size
    sums.golden_squares += float(g @ g)
    sums.error_squares += float(error @ error)
    sums.largest_error = max(sums.largest_error, float(error.max()), -float(error.min()))
    if sums.shift is None:
        sums.shift = float(g.mean())
    g -= sums.shift
    d -= sums.shift
    sums.golden += float(g.sum())
    sums.got += float(d.sum())
    sums.golden_moment += float(g @ g)
    sums.got_moment += float(d @ d)
    sums.cross_moment += float(g @ d)


def _settle(sums: _Sums, start: int, g: np.ndarray, d: np.ndarray, row: Tolerance) -> tuple[np.ndarray, np.ndarray]:
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
        sums.reason = f"NaN or Inf: expected {g[at]:.6g}, got {d[at]:.6g} at element {start + at}"
    both = np.isfinite(g) & np.isfinite(d)
    sums.finite -= int(np.count_nonzero(~both))
    return np.where(both, g, 0.0), np.where(both, d, 0.0)


def _pcc(sums: _Sums, row: Tolerance) -> tuple[float | None, float]:
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


def _robust_errors(golden: np.ndarray, got: np.ndarray, row: Tolerance) -> tuple[float, float, float]:
    """A share of the elements, the largest |got - golden| / |golden| among it, and relative L2 without outliers.

    Of many values a sample. Elements whose golden is 0 have no relative error. In a block format small values are only
    as exact as their block's largest: there errors are relative to it, and there is no L2 without it (0).
    """
    share = MOST if row.by_element and not row.block else 0.5
    if row.block:
        whole = golden.size // 16 * 16
        if whole == 0:
            return share, 0.0, 0.0
        g, d = _sample(golden[:whole].reshape(-1, 16), got[:whole].reshape(-1, 16), _SAMPLE // 16)
        size = np.broadcast_to(np.max(np.abs(np.where(np.isfinite(g), g, 0)), axis=1, keepdims=True), g.shape)
    else:
        g, d = _sample(golden, got, _SAMPLE)
        size = np.abs(g)
    finite = np.isfinite(g) & np.isfinite(d)
    use = finite & (size >= _TINY)
    if not use.any():
        return share, 0.0, 0.0
    error = float(np.quantile(np.abs(d[use] - g[use]) / size[use], share))
    if row.block:
        return share, error, 0.0
    core = finite & (size <= OUTLIER * np.median(size[use]))
    return share, error, float(np.linalg.norm(d[core] - g[core]) / np.linalg.norm(g[core]))


def _sample(golden: np.ndarray, got: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """About `count` entries of both as float64, taken at an odd stride so that they fall in every column."""
    stride = len(golden) // count | 1 if len(golden) > count else 1
    return golden[::stride].astype(np.float64), got[::stride].astype(np.float64)


def _is_discrete(dtype: np.dtype) -> bool:
    """Whether values of the type are integers or booleans (ml_dtypes' int4 and its kin included)."""
    return dtype.kind in "iub" or (dtype.kind == "V" and "int" in dtype.name)


def _element_type(dtype: np.dtype) -> str:
    """MLIR's name of a NumPy type; NumPy's own where MLIR has none."""
    return _MLIR_NAMES.get(dtype.name, dtype.name)


def _refused(name: str, reason: str) -> ResultCheck:
    return ResultCheck(passed=False, pcc=None, relative_l2=None, max_abs=None, tolerance=name, reason=reason)


def _shape(array: np.ndarray) -> str:
    return "x".join(map(str, array.shape)) or "scalar"


def _place(index: int, shape: tuple[int, ...]) -> str:
    return str(tuple(int(i) for i in np.unravel_index(index, shape)))
