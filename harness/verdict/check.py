"""One result against its golden under one row of the tolerance table.

In order: shape and element type; NaN position; infinity position and sign; exact values where the tolerance says so;
then every element, by its error over its own scale (`scores.py`): the largest, the systematic and the placed error each
have a limit. Without a scale a result is judged as a whole: relative L2, of all and without outliers, the relative
error of most elements, guarded PCC. Which row and which scale an op's result has is compare.py's part.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from opscope.harness.record.element_types import NUMPY_NAMES
from opscope.harness.record.records import ResultCheck
from opscope.harness.verdict.displaced import displaced
from opscope.harness.verdict.moments import TINY, Sums, gather, pcc_of, unrelated
from opscope.harness.verdict.ordered_sums import dot, norm
from opscope.harness.verdict.places import index_of, name_of
from opscope.harness.verdict.rounding import smallest_normal
from opscope.harness.verdict.scores import SYSTEMATIC_FROM, Scale, Scores, chunks
from opscope.harness.verdict.steps import Steps
from opscope.harness.verdict.tolerance import Tolerance
from opscope.harness.verdict.unrounded import Unrounded, different

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
_CHUNK = 1 << 13
"""Elements of a chunk: of more than 10,000 OpenBLAS takes a dot product in threads, which cost more than they save."""
_SAMPLE = 1 << 19
ZERO = 1e-5
"""Largest value that may stand where a whole golden is zero, however small its operands."""


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
    relative, median = norm(error) / max(norm(size), 1e-300), float(np.median(error / size))
    if not (relative <= row.relative_l2 and median <= row.single):
        reason = f"wrong by {relative:.3g} of its terms (median {median:.3g}), at most {row.relative_l2:.3g} is right"
        return plain.model_copy(update={"reason": f"cancelling sum: {reason}"})
    rest = check(golden.ravel()[~cancelled], got.ravel()[~cancelled], row)
    flags = tuple(dict.fromkeys((*plain.flags, *rest.flags, "cancellation")))
    return plain.model_copy(update={"passed": rest.passed, "reason": rest.reason, "flags": flags})


def check_truncated(
    golden: np.ndarray, got: np.ndarray, row: Tolerance, products: int, plain: ResultCheck, steps: Steps | None = None
) -> ResultCheck:
    """The verdict on a whole model's result that is wrong by `plain`, after so many `products` in a row.

    Truncation makes each of them smaller, never larger, and nothing but a norm takes that back. A result that is no
    shorter along its golden than so many truncations make it is judged by its direction, as if it had its length.
    """
    g, d = golden.astype(np.float64).ravel(), got.astype(np.float64).ravel()
    with np.errstate(invalid="ignore", divide="ignore"):
        length = dot(g, d) / dot(g, g) if g.any() else math.nan
    if not 1 - products * TRUNCATES <= length < 1:
        return plain
    scale = None if steps is None else Scale(steps)
    rest = check(golden, (d / length).astype(golden.dtype).reshape(golden.shape), row, scale)
    flags = tuple(dict.fromkeys((*plain.flags, *rest.flags, "truncation")))
    return plain.model_copy(update={"passed": rest.passed, "reason": rest.reason, "flags": flags})


def check(
    golden: np.ndarray, got: np.ndarray, row: Tolerance, scale: Scale | None = None, *, strict: bool = False
) -> ResultCheck:
    """Compares one result with its golden under one row of the tolerance table.

    With a `scale`, element by element; else as a whole. `strict`: what should be zero has operands to be judged by.
    """
    if golden.shape != got.shape:
        return refused(row.name, f"shape: expected {_shape(golden)}, got {_shape(got)}")
    if golden.dtype != got.dtype:
        kinds = element_type(golden.dtype), element_type(got.dtype)
        return refused(row.name, f"element type: expected {kinds[0]}, got {kinds[1]}")
    if golden.size == 0:
        return ResultCheck(passed=True, pcc=None, relative_l2=0.0, max_abs=0.0, tolerance=row.name)
    if _is_discrete(golden.dtype):
        return _check_discrete(golden, got, row)
    shape = golden.shape
    if golden.dtype.kind == "c":
        part = np.float32 if golden.dtype == np.complex64 else np.float64
        golden, got = np.ascontiguousarray(golden).view(part), np.ascontiguousarray(got).view(part)
        golden, got = np.atleast_1d(golden), np.atleast_1d(got)
        if scale is not None:
            scale = replace(scale, terms=_doubled(scale.terms), moved=_doubled(scale.moved))
        shape = golden.shape
    scores, tiny = None, smallest_normal(golden.dtype)
    if scale is not None and scale.steps.stored and scale.steps.stored_as == "Float16":
        tiny = max(tiny, smallest_normal(np.dtype(np.float16)))  # what is below it there is a denormal of the card's
    if scale is not None and not row.exact:
        flat = replace(scale, terms=_flat(scale.terms), moved=_flat(scale.moved), within=_flat(scale.within))
        flat = replace(flat, leaning=_flat(scale.leaning), usual=_flat(scale.usual))
        scores = Scores(flat, shape, tiny)
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinity are checked for explicitly
        return _check_floats(np.ravel(golden), np.ravel(got), row, scores, strict, shape, tiny)


def check_unrounded(
    golden: np.ndarray, got: np.ndarray, row: Tolerance, scale: Scale, unrounded: Unrounded | None
) -> ResultCheck:
    """The verdict by what a result may have been before it was rounded. Equal elements are counted where nothing but
    their number may excuse its mean."""
    again = check(golden, got, row, replace(scale, unrounded=unrounded), strict=True)
    if again.question != "systematic" or unrounded is None:
        return again
    return check(golden, got, row, replace(scale, unrounded=unrounded.counted()), strict=True)


def _flat(sizes: np.ndarray | None) -> np.ndarray | None:
    return None if sizes is None else np.ravel(sizes)


def _doubled(sizes: np.ndarray | None) -> np.ndarray | None:
    """Sizes of complex numbers for both of their parts, in one row."""
    return None if sizes is None else np.repeat(sizes, 2)


def _check_discrete(golden: np.ndarray, got: np.ndarray, row: Tolerance) -> ResultCheck:
    """Integers and booleans: equal or wrong."""
    wrong = golden != got
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return ResultCheck(passed=True, pcc=None, relative_l2=0.0, max_abs=0.0, tolerance=row.name)
    first = int(np.argmax(wrong))
    g, d = golden.flat[first], got.flat[first]
    largest = float(np.max(np.abs(golden[wrong].astype(np.float64) - got[wrong].astype(np.float64))))
    index, place = index_of(first, golden.shape), name_of(first, golden.shape)
    reason = f"{count} of {golden.size} values are wrong: {d} instead of {g} at {index}, {place}"
    return ResultCheck(
        passed=False,
        pcc=None,
        relative_l2=None,
        max_abs=largest,
        tolerance=row.name,
        reason=reason,
        z_index=index,
        z_place=place,
    )


def _check_floats(
    golden: np.ndarray,
    got: np.ndarray,
    row: Tolerance,
    scores: Scores | None,
    strict: bool,
    shape: tuple[int, ...],
    tiny: float,
) -> ResultCheck:
    sums = Sums(tiny=tiny)
    part = scores if scores is not None and scores.scale.steps.error_model == "part" else None
    alike = part is not None and np.array_equal(golden, got)
    scored = None if alike else scores
    for start, end in chunks(golden.size, scores.columns if scores is not None else 1, _CHUNK):
        gather(sums, start, golden[start:end].astype(np.float64), got[start:end].astype(np.float64), row, scored)
        if sums.reason:
            index, place = index_of(sums.wrong_at, shape), name_of(sums.wrong_at, shape)
            return refused(row.name, sums.reason).model_copy(update={"z_index": index, "z_place": place})
        if scored is not None and scored.scale.hasty and scored.largest > scored.limit:
            return refused(row.name, "").model_copy(update={"max_abs": sums.largest_error, "question": "largest"})
    flags = tuple(name for name, count in (("denormal_flush", sums.flushed), ("saturated", sums.saturated)) if count)
    size, error = math.sqrt(sums.golden_squares), math.sqrt(sums.error_squares)
    relative = error / size if size else (0.0 if error == 0 else math.inf)
    pcc, spread = pcc_of(sums, row)
    question, fields = "", {}
    if scores is None:
        reason = _verdict(golden, got, sums, row, pcc, spread)
    elif alike:  # as most results of pieces are on a host, where one that is off takes three times as long
        reason, scores.count = "", golden.size
        fields = {"z_max": 0.0, "z_limit": scores.limit, "question": question}
    else:
        question, reason = _answers(golden, got, sums, row, scores, strict)
        if not reason and part is not None:
            reason = _verdict(golden, got, sums, row, pcc, spread)
            if not reason and (moved := displaced(golden, got, scores.shape)):
                question, reason = "placed", f"placed error: {moved}"
            if not reason and (said := unrelated(sums, scores.scale.steps.resolution)):
                question, reason = "systematic", f"systematic error: {said}"
        fields = {"z_max": scores.largest, "z_limit": scores.limit, "question": question}
        if scores.at >= 0:
            fields |= {"z_index": index_of(scores.at, scores.shape), "z_place": name_of(scores.at, scores.shape)}
    return ResultCheck(
        passed=not reason,
        pcc=pcc,
        relative_l2=relative if math.isfinite(relative) else None,
        max_abs=sums.largest_error,
        tolerance=row.name,
        reason=reason,
        flags=flags,
        **fields,
    )


def _answers(
    golden: np.ndarray, got: np.ndarray, sums: Sums, row: Tolerance, scores: Scores, strict: bool
) -> tuple[str, str]:
    """The question that a result fails, and how; empty if it is right."""
    if sums.golden_squares == 0:
        if sums.largest_error <= (ZERO if strict else row.relative_l2):
            return "", ""
        if not strict:
            return "largest", f"golden is all zero: {_too_far(sums.largest_error, row.relative_l2)}"
    bound = scores.scale.steps.error_model == "bound"
    question, said = scores.wrong(lambda: not bound or _several(golden, scores.scale), ties=not strict)
    if question == "largest":
        where = f"{index_of(scores.at, scores.shape)}, {name_of(scores.at, scores.shape)}"
        right, wrong = (float(values[scores.at]) for values in (golden, got))
        return question, f"wrong by {abs(wrong - right):.3g} at {where}: {wrong:.6g} instead of {right:.6g}, {said}"
    return question, f"{question} error: {said}" if question else ""


def _too_far(error: float, most: float) -> str:
    return f"wrong by {error:.3g}, at most {most:.3g} is right"


def _several(golden: np.ndarray, scale: Scale) -> bool:
    """Whether a golden has enough different values for a mean, at the least before they were rounded: those are rounded
    each for itself. A first look leaves that to the second."""
    if scale.first_look or different(golden, SYSTEMATIC_FROM):
        return True
    if scale.unrounded is None:
        return False
    repeats = np.broadcast_to(scale.unrounded.repeats, golden.shape)
    return float((1 / repeats).sum()) >= SYSTEMATIC_FROM - 0.5


def _verdict(golden: np.ndarray, got: np.ndarray, sums: Sums, row: Tolerance, pcc: float | None, spread: float) -> str:
    """Why the result is wrong; empty if it is right."""
    if row.exact:
        if not sums.unequal:
            return ""
        at = sums.first_unequal
        return f"{sums.unequal} of {sums.count} values are wrong: {got[at]!s} instead of {golden[at]!s} at element {at}"
    if sums.golden_squares == 0:
        if sums.largest_error <= row.relative_l2:
            return ""
        return f"golden is all zero: {_too_far(sums.largest_error, row.relative_l2)}"
    relative = math.sqrt(sums.error_squares / sums.golden_squares)
    if not relative <= row.relative_l2:
        return f"relative L2: {_too_far(relative, row.relative_l2)}"
    if relative > 0:
        share, error, bulk = _robust_errors(golden, got, row)
        if error > row.single:
            return f"relative error of {share:.0%} of the elements: {_too_far(error, row.single)}"
        if row.by_element and bulk > BULK_MARGIN * row.relative_l2:
            return f"relative L2 without outliers: {_too_far(bulk, BULK_MARGIN * row.relative_l2)}"
    if pcc is not None:
        # An honest error, half of what relative_l2 allows, on values that vary little costs this much correlation.
        required = min(row.pcc, 1 - (row.relative_l2 / spread) ** 2 / 4)
        if not pcc >= required:
            return f"PCC: {pcc:.6g}, at least {required:.6g} is right"
    return ""


def _robust_errors(golden: np.ndarray, got: np.ndarray, row: Tolerance) -> tuple[float, float, float]:
    """A share of the elements, the largest |got - golden| / |golden| among it, and relative L2 without outliers.

    Of many values a sample. An error that the row allows, and L2 where the row does not ask for it, are 0. Elements
    whose golden is 0 have no relative error. In a block format small values are only as exact as their block's
    largest: there errors are relative to it, and there is no L2 without it.
    """
    share = MOST if row.by_element and not row.block else 0.5
    if row.block:
        whole = golden.size // 16 * 16
        g, d = _sample(golden[:whole].reshape(-1, 16), got[:whole].reshape(-1, 16), _SAMPLE // 16)
        size = np.broadcast_to(np.max(np.abs(np.where(np.isfinite(g), g, 0)), axis=1, keepdims=True), g.shape)
    else:
        g, d = _sample(golden, got, _SAMPLE)
        size = np.abs(g)
    finite = np.isfinite(g) & np.isfinite(d)
    use = finite & (size >= TINY)
    if not use.any():
        return share, 0.0, 0.0
    difference, sizes = (d - g, size) if use.all() else (d[use] - g[use], size[use])
    relative = np.abs(difference) / sizes
    fine = np.count_nonzero(relative <= row.single) > share * (relative.size - 1) + 1
    error = 0.0 if fine else float(np.quantile(relative, share, overwrite_input=True))
    if row.block or not row.by_element:
        return share, error, 0.0
    core = finite & (size <= OUTLIER * np.median(sizes))
    if core.all():
        return share, error, norm(d - g) / norm(g)
    return share, error, norm(d[core] - g[core]) / norm(g[core])


def _sample(golden: np.ndarray, got: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """About `count` entries of both as float64, taken at an odd stride so that they fall in every column."""
    stride = len(golden) // count | 1
    return golden[::stride].astype(np.float64), got[::stride].astype(np.float64)


def _is_discrete(dtype: np.dtype) -> bool:
    """Whether values of the type are integers or booleans (ml_dtypes' int4 and its kin included)."""
    return dtype.kind in "iub" or (dtype.kind == "V" and "int" in dtype.name)


def element_type(dtype: np.dtype) -> str:
    """MLIR's name of a NumPy type; NumPy's own where MLIR has none."""
    return _MLIR_NAMES.get(dtype.name, dtype.name)


def refused(name: str, reason: str) -> ResultCheck:
    """A result that has no numbers to compare, and why."""
    return ResultCheck(passed=False, pcc=None, relative_l2=None, max_abs=None, tolerance=name, reason=reason)


def _shape(array: np.ndarray) -> str:
    return "x".join(map(str, array.shape)) or "scalar"
