"""The verdict on numbers: is what came back right, given what the requested target computes in?

In order: result count, shape and element type; NaN position; infinity position and sign; exact values where the
tolerance says so; then every element, by its error over its own scale (`scores.py`): the largest, the systematic and
the placed error each have a limit. The first look takes the scale from the golden and what the walk kept; only a result
that fails it has its operands evaluated (`operands.py`). Results whose steps are not known, values inside a model, are
judged as wholes: relative L2, of all and without outliers, the relative error of most elements, guarded PCC.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from opscope.base.op_families import op_family
from opscope.harness.prepare.operand_sizes import is_float
from opscope.harness.prepare.program import SingleOp
from opscope.harness.record.element_types import NUMPY_NAMES
from opscope.harness.record.records import PRODUCTS_IN_A_ROW, QUANTISED, WHOLE_MODEL, OpRow, ResultCheck, TensorDesc
from opscope.harness.verdict import halves, ties
from opscope.harness.verdict.moments import TINY, Sums, gather, pcc_of
from opscope.harness.verdict.operands import (
    BINARY,
    STORED_TYPES,
    NotEvaluatedError,
    Operands,
    as_stored,
    magnitude,
    wide,
)
from opscope.harness.verdict.places import index_of, name_of
from opscope.harness.verdict.rounding import has_double_denormals, legal_conversion, smallest_normal, without_denormals
from opscope.harness.verdict.scores import SYSTEMATIC_FROM, Scale, Scores, chunks
from opscope.harness.verdict.steps import FLOAT32, Steps, steps_of
from opscope.harness.verdict.target import Target
from opscope.harness.verdict.tolerance import Tolerance, inner_size, tolerance
from opscope.harness.verdict.unrounded import Unrounded

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
BITS = "stablehlo.rng_bit_generator"
_CHUNK = 1 << 14
_SAMPLE = 1 << 19
ZERO = 1e-5
"""Largest value that may stand where a whole golden is zero, however small its operands."""


def compare_op(
    op: OpRow | SingleOp,
    golden: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    target: Target,
    operands: Operands | None,
    name: str = "",
) -> list[ResultCheck]:
    """One check per result of an op; `name` says what it is judged as, where that is another op's name."""
    judged_as, params = name or op.op_name, op.op_params
    return compare(
        golden, got, judged_as, target, inputs=op.inputs, outputs=op.outputs, params=params, operands=operands
    )


def compare(
    golden: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    op_name: str,
    target: Target,
    *,
    inputs: Sequence[TensorDesc] = (),
    outputs: Sequence[TensorDesc] = (),
    params: Mapping[str, str] | None = None,
    operands: Operands | None = None,
) -> list[ResultCheck]:
    """One check per result. `inputs`, `outputs` and `params` (the op's) say over how many products it sums.

    `operands` are evaluated only where the golden alone cannot excuse an error.
    """
    kind, params = op_family(op_name), params or {}
    if op_name == BITS and len(golden) == len(got):
        golden, got = zip(*map(_as_bits, golden, got), strict=True) if golden else ((), ())
        outputs = ()
    inner = inner_size(kind, inputs, outputs, params)
    body = params.get("body")
    ulp = target.error_bound(op_name) if target.error_bound else None
    checks = []
    for index in range(max(len(golden), len(got))):
        if index >= len(golden) or index >= len(got):
            checks.append(_refused("count", f"expected {len(golden)} results, got {len(got)}"))
            continue
        name = outputs[index].data_type if index < len(outputs) else _element_type(golden[index].dtype)
        row = tolerance(target, kind, name, inner, op_name=op_name, body=body, ulp=ulp)
        steps = steps_of(target, kind, name, inner, op_name=op_name, body=body, ulp=ulp)
        result = _judged(golden, got, index, row, steps, op_name, operands)
        if not result.passed and row.truncates and (products := int(params.get(PRODUCTS_IN_A_ROW, 0))):
            result = check_truncated(golden[index], got[index], row, products, result, steps)
        if not result.passed and QUANTISED in params and operands is not None and not name.startswith(("f", "bf")):
            row = tolerance(target, kind, "f32", inner, op_name=op_name, body=body, ulp=ulp)
            result = halves.excused(golden[index], got[index], index, result, operands, row.relative_l2)
        checks.append(result if target.tiled else _without_tiles(result))
    if op_name == "stablehlo.sort" and not all(check.passed for check in checks):
        checks = ties.excused(golden, got, params, checks)
    return checks


def _without_tiles(check: ResultCheck) -> ResultCheck:
    """The same check where the element's index alone is its place."""
    if not check.z_place:
        return check
    return check.model_copy(update={"reason": check.reason.replace(f", {check.z_place}", ""), "z_place": ""})


def _as_bits(golden: np.ndarray, got: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two results of one type, of floats as the integers that their bits are: random ones may be any NaN."""
    if golden.dtype != got.dtype or not is_float(golden):
        return golden, got
    unsigned = f"u{golden.dtype.itemsize}"
    return np.ascontiguousarray(golden).view(unsigned), np.ascontiguousarray(got).view(unsigned)


def _judged(
    golden: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    index: int,
    row: Tolerance,
    steps: Steps | None,
    op_name: str,
    operands: Operands | None,
) -> ResultCheck:
    """The verdict on one result: by the golden first, then by its operands."""
    g, d = golden[index], got[index]
    if steps is None or g.shape != d.shape or g.dtype != d.dtype:
        result = check(g, d, row)
    elif operands is not None and (
        (result := _converted(g, d, row, steps, operands)) is not None
        or (result := _in_blocks(golden, got, index, row, steps, operands)) is not None
    ):
        pass
    else:
        kept = operands.kept()[index] if operands is not None and operands.sums and operands.kept is not None else None
        result = check(g, d, row, Scale(steps, terms=kept), strict=operands is not None)
        loose = steps.error_model == "part" and op_name != WHOLE_MODEL
        if operands is not None and _has_numbers(result) and (not result.passed or (loose and result.max_abs)):
            try:
                result = _by_operands(golden, got, index, row, steps, operands)
            except NotEvaluatedError as error:
                if result.question == "systematic":
                    result = check(g, d, row, Scale(steps, terms=kept))  # all may have been ties
                return result if result.passed else _with_note(result, f"operands not evaluated: {error}")
    if result.passed or operands is None or g.shape != d.shape or g.dtype != d.dtype:
        return result
    scale = None if steps is None else Scale(steps)
    if result.question == "largest" and steps is not None and steps.error_model == "sum" and operands.sums:
        again = _by_partial_sums(g, d, row, steps, index, operands)
        if again is not None and again.passed:
            return again
    for flag, other, by in _other_goldens(g, d, index, steps, operands):
        try:
            again = check(other(), d, row, by or scale)
        except NotEvaluatedError:
            continue
        if again.passed:
            return again.model_copy(update={"flags": tuple(dict.fromkeys((*again.flags, flag)))})
    return result


def _other_goldens(
    golden: np.ndarray, got: np.ndarray, index: int, steps: Steps | None, operands: Operands
) -> Iterator[tuple[str, Callable[[], np.ndarray], Scale | None]]:
    """What else is right, why, and by which scale if not by the usual one: other treatments of denormals, terms as the
    matrix unit reads them, and an initial value that enters as often as XLA takes it."""
    for run in _other_denormals(got, operands):
        yield "denormal_flush", lambda run=run: _changed_by(run, golden, index, operands), None
    if not operands.sums or steps is None or op_family(operands.op_name) not in ("reduce", "pool"):
        return
    if steps.reads is not None and not steps.stored:
        # Equal terms lose alike, and the largest of a few sums has no bound: here the loss is known.
        added = (steps.added / (2 * FLOAT32)) ** 1.5 * FLOAT32  # equal terms are also added up alike
        exact = Scale(replace(steps, cut=(0.0, 0.0), added=added), terms=operands.term_sizes[index])
        yield "truncation", lambda: operands.run_cut(steps.reads or 0)[index], exact
    if len(operands.inputs) > 1:
        yield "initial_value", lambda: operands.run_as_written()[index], Scale(steps, terms=operands.term_sizes[index])


def _changed_by(
    run: Callable[[], Sequence[np.ndarray]], golden: np.ndarray, index: int, operands: Operands
) -> np.ndarray:
    """The golden with the elements that another treatment of denormals changes, and no others: a suite's stored answers
    are not XLA's."""
    other, plain = run()[index], operands.run(operands.inputs)[index]
    return np.where((other == plain) | ((other != other) & (plain != plain)), golden, other).astype(golden.dtype)


def _other_denormals(got: np.ndarray, operands: Operands) -> Iterator[Callable[[], Sequence[np.ndarray]]]:
    """How else the op may be computed: with denormal operands as zero, as devices do; in double precision with
    denormals as they are, as hosts do. The golden is XLA's, which makes those of some ops zero."""
    flushed = without_denormals(operands.inputs)
    if flushed is not None:
        yield lambda: operands.run(flushed)
    if has_double_denormals([got, *operands.inputs]):
        yield operands.run_with_denormals


def _converted(
    golden: np.ndarray, got: np.ndarray, row: Tolerance, steps: Steps, operands: Operands
) -> ResultCheck | None:
    """The verdict on a conversion whose operand lost nothing before; None if the op is none, or not between floats.

    Also where its error is small: a truncation is no larger than a rounding may be that is followed by another. (FP8 is
    cut by the packer.)
    """
    if operands.op_name != "stablehlo.convert" or steps.stored or golden.dtype.itemsize < 2:
        return None
    reason = legal_conversion(operands.inputs[0], golden, got)
    if reason is None:
        return None
    plain = check(golden, got, row, Scale(steps), strict=True)
    if not _has_numbers(plain):
        return plain
    return plain.model_copy(update={"passed": not reason, "reason": reason, "question": "rounding" if reason else ""})


def _in_blocks(
    golden: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    index: int,
    row: Tolerance,
    steps: Steps,
    operands: Operands,
) -> ResultCheck | None:
    """The verdict on an elementwise result whose operands are rounded to blocks, which the golden alone never excuses;
    None where XLA does not evaluate them, or nothing was rounded."""
    rounded = steps.block and steps.stored and steps.error_model == "bound" and op_family(operands.op_name) == "eltwise"
    if not rounded or not is_float(golden[index]):
        return None
    try:
        return _by_operands(golden, got, index, row, steps, operands)
    except NotEvaluatedError:
        return None


def _by_operands(
    golden: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    index: int,
    row: Tolerance,
    steps: Steps,
    operands: Operands,
) -> ResultCheck:
    """The verdict on a result whose error the golden alone does not excuse: by the sizes of its operands."""
    g, d = golden[index], got[index]
    terms = operands.term_sizes[index] if operands.sums else None
    moved = operands.moved(steps, golden)[index] if steps.by_operands else None
    if moved is not None and g.dtype.kind == "c":
        moved = moved + (steps.function + steps.packed + 2 * steps.declared + steps.cuts) * magnitude(g)
    constant = steps.stored > 0 and operands.op_name in BINARY and len(operands.inputs) == 1
    result = None
    for unrounded in _before_rounding(g, index, steps, operands):
        scale = Scale(steps, terms=terms, moved=moved, unrounded=unrounded, alike=steps.stored if constant else 0.0)
        again = check(g, d, row, scale, strict=True)
        if again.question != "systematic":  # nothing else depends on it
            return again
        result = result or again
    assert result is not None
    return result


def _by_partial_sums(
    golden: np.ndarray, got: np.ndarray, row: Tolerance, steps: Steps, index: int, operands: Operands
) -> ResultCheck | None:
    """The verdict on a sum by what its additions round in the order of its terms; None if it is no `reduce`, or added
    up in 16 bits."""
    sizes = operands.partial_sums(golden)
    if sizes is None or not sizes.size:
        return None
    inner = operands.inputs[0].size / sizes.size
    if steps.added > 2.02 * FLOAT32 * math.sqrt(inner):
        return None  # in 16 bits it would excuse anything
    terms = operands.term_sizes[index]
    return check(golden, got, row, Scale(steps, terms=terms, added=sizes.ravel() / math.sqrt(inner)), strict=True)


def _before_rounding(golden: np.ndarray, index: int, steps: Steps, operands: Operands) -> Iterator[Unrounded | None]:
    """What a result may have been before it was rounded, as far as its mean error depends on it: by the operands as
    they are, and as they are stored, where a program may narrow them first. One value that all elements share is
    stored alike for all of them, which is no chance."""
    single = golden.dtype.kind == "f" and golden.dtype.itemsize >= 4
    if not steps.stored or steps.stored_as not in (*STORED_TYPES, "Bfp8"):
        counted = steps.counts_ties and golden.dtype.kind != "c"
        yield Unrounded.of(operands.run_wide()[index], golden.dtype) if counted else None
        return
    stored_type = np.dtype(STORED_TYPES.get(steps.stored_as, golden.dtype))
    yield Unrounded.of(golden, stored_type) if steps.counts_ties and single else None
    if single:
        result = operands.run_stored(steps.stored_as)[index]
        with np.errstate(invalid="ignore"):
            offset = wide(as_stored(result, steps.stored_as)).ravel() - wide(golden).ravel()
        yield Unrounded.of(result, stored_type, np.where(np.isfinite(offset), offset, 0.0))


def _with_note(result: ResultCheck, note: str) -> ResultCheck:
    return result.model_copy(update={"reason": f"{result.reason} ({note})"})


def _has_numbers(result: ResultCheck) -> bool:
    """Whether a result had the right shape and type, and NaN and infinity where they belong."""
    return result.max_abs is not None


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
    golden: np.ndarray, got: np.ndarray, row: Tolerance, products: int, plain: ResultCheck, steps: Steps | None = None
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
        return _refused(row.name, f"shape: expected {_shape(golden)}, got {_shape(got)}")
    if golden.dtype != got.dtype:
        kinds = _element_type(golden.dtype), _element_type(got.dtype)
        return _refused(row.name, f"element type: expected {kinds[0]}, got {kinds[1]}")
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
    scores = None
    if scale is not None and not row.exact:
        flat = replace(scale, terms=_flat(scale.terms), moved=_flat(scale.moved))
        scores = Scores(flat, shape)
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinity are checked for explicitly
        return _check_floats(np.ravel(golden), np.ravel(got), row, scores, strict, shape)


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
    reason = f"{count} of {golden.size} values differ: expected {g}, got {d} at {index}, {place}"
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


# --- floats


def _check_floats(
    golden: np.ndarray, got: np.ndarray, row: Tolerance, scores: Scores | None, strict: bool, shape: tuple[int, ...]
) -> ResultCheck:
    sums = Sums(tiny=smallest_normal(golden.dtype))
    for start, end in chunks(golden.size, scores.columns if scores is not None else 1, _CHUNK):
        gather(sums, start, golden[start:end].astype(np.float64), got[start:end].astype(np.float64), row, scores)
        if sums.reason:
            index, place = index_of(sums.wrong_at, shape), name_of(sums.wrong_at, shape)
            return _refused(row.name, sums.reason).model_copy(update={"z_index": index, "z_place": place})
    flags = tuple(name for name, count in (("denormal_flush", sums.flushed), ("saturated", sums.saturated)) if count)
    norm, error = math.sqrt(sums.golden_squares), math.sqrt(sums.error_squares)
    relative = error / norm if norm else (0.0 if error == 0 else math.inf)
    pcc, spread = pcc_of(sums, row)
    question, fields = "", {}
    if scores is None:
        reason = _verdict(golden, got, sums, row, pcc, spread)
    else:
        question, reason = _answers(golden, got, sums, row, scores, strict)
        if not reason and scores.scale.steps.error_model == "part":
            reason = _verdict(golden, got, sums, row, pcc, spread)
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
            return (
                "largest",
                f"golden is all zero: expected at most {row.relative_l2:.3g}, got {sums.largest_error:.3g}",
            )
    bound = scores.scale.steps.error_model == "bound"
    question, said = scores.wrong(lambda: not bound or np.unique(golden).size >= SYSTEMATIC_FROM, ties=not strict)
    if question == "largest":
        where = f"{index_of(scores.at, scores.shape)}, {name_of(scores.at, scores.shape)}"
        said += f" at {where}: expected {golden[scores.at]:.6g}, got {got[scores.at]:.6g}"
    return question, f"{question} error: {said}" if question else ""


def _verdict(golden: np.ndarray, got: np.ndarray, sums: Sums, row: Tolerance, pcc: float | None, spread: float) -> str:
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


def _robust_errors(golden: np.ndarray, got: np.ndarray, row: Tolerance) -> tuple[float, float, float]:
    """A share of the elements, the largest |got - golden| / |golden| among it, and relative L2 without outliers.

    Of many values a sample. Elements whose golden is 0 have no relative error. In a block format small values are only
    as exact as their block's largest: there errors are relative to it, and there is no L2 without it (0).
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
    error = float(np.quantile(np.abs(d[use] - g[use]) / size[use], share))
    if row.block:
        return share, error, 0.0
    core = finite & (size <= OUTLIER * np.median(size[use]))
    return share, error, float(np.linalg.norm(d[core] - g[core]) / np.linalg.norm(g[core]))


def _sample(golden: np.ndarray, got: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """About `count` entries of both as float64, taken at an odd stride so that they fall in every column."""
    stride = len(golden) // count | 1
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
