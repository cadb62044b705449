"""The verdict on numbers: is what came back right, given what the requested target computes in?

How many results there are comes first, then each against its golden (`check.py`). The first look takes the scale from
the golden and what the walk kept; only a result that fails it has its operands evaluated (`operands.py`). Results whose
steps are not known, values inside a model, are judged as wholes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from opscope.base.op_families import PRODUCTS, judged_as, op_family
from opscope.harness.formulas import whole_numbers
from opscope.harness.formulas.nearest import last_place, rounded
from opscope.harness.prepare.operand_sizes import is_float
from opscope.harness.prepare.program import SingleOp
from opscope.harness.record.records import PRODUCTS_IN_A_ROW, QUANTISED, WHOLE_MODEL, OpRow, ResultCheck, TensorDesc
from opscope.harness.verdict import eight_bits, halves, other_steps, overflows, ties
from opscope.harness.verdict import tolerance as table
from opscope.harness.verdict.check import check, check_truncated, check_unrounded, element_type, refused
from opscope.harness.verdict.meaning import (
    COMPOSITE,
    ExactOperands,
    as_documented,
    by_documented_steps,
    family,
    meant,
)
from opscope.harness.verdict.operands import (
    BINARY,
    STORED_TYPES,
    NotEvaluatedError,
    Operands,
    as_stored,
    magnitude,
    wide,
)
from opscope.harness.verdict.rounding import (
    cut_to,
    has_denormals,
    legal_conversion,
    rounded_away,
    smallest_normal,
    without_denormals,
)
from opscope.harness.verdict.scores import ALONE, SLACK, SYSTEMATIC_FROM, Scale
from opscope.harness.verdict.steps import (
    FLOAT32,
    FRACTION_BITS,
    GOLDEN_IN_STEPS,
    SRC_B,
    Steps,
    cut_of,
    steps_of,
    unit,
)
from opscope.harness.verdict.target import Target
from opscope.harness.verdict.tolerance import Tolerance, inner_size, tolerance
from opscope.harness.verdict.unrounded import Unrounded, different

COARSE, SAMPLED, FEW = 7, 1 << 12, 0.5
"""Fraction bits of bfloat16; of so many results more than this share has finer ones, or all are looked at."""
ADDED_IN_REGISTERS = frozenset({"stablehlo.add", "stablehlo.subtract"})
"""What the matrix unit rounds twice in 16 bits: to the bits of its registers first (ttnn 0.81.1 as recorded)."""
BITS = "stablehlo.rng_bit_generator"
TOP = "chlo.top_k"
"""What composites are judged as that pick values."""
GROUPS = 4
"""Groups of values from which a mistaken formula is looked for: in few of them roundings may come to one by chance."""
MANY = 16
"""The same for a variance that is off alike in all, which one pass over the values excuses in each alone."""
MISTAKEN = 0.2
"""How far from 1 the mean share of groups may be that a mistaken formula made; its deviation may be half of it."""


def compare_op(
    op: OpRow | SingleOp,
    golden: Sequence[np.ndarray],
    got: Sequence[np.ndarray],
    target: Target,
    operands: Operands | None,
    name: str = "",
) -> list[ResultCheck]:
    """One check per result of an op or a piece; `name` says what it is judged as, where that is another op's name."""
    if isinstance(op, OpRow) and op.holds and operands is not None:
        from opscope.harness.verdict import several_ops  # which splits modules

        return several_ops.compare(golden, got, op.op_params, target, operands)
    known_as, params = name or op.op_name, op.op_params
    checks = compare(
        golden, got, known_as, target, inputs=op.inputs, outputs=op.outputs, params=params, operands=operands
    )
    if op.op_name == "stablehlo.while" and operands is not None and not all(check.passed for check in checks):
        from opscope.harness.verdict import loops  # which splits modules

        return loops.excused(golden, got, checks, target, operands)
    return checks


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
    params = params or {}
    picks, given = op_name == COMPOSITE and ties.picks(params), golden
    op_name = TOP if picks else judged_as(op_name, (desc.data_type for desc in inputs))
    golden, operands = meant(op_name, params, target, golden, operands)
    kind = family(op_name, operands)
    came, (got, documented) = got, as_documented(op_name, target, golden, got, operands)
    if op_name == BITS and len(golden) == len(got):
        golden, got = zip(*map(_as_bits, golden, got), strict=True) if golden else ((), ())
        outputs = ()
    inner = inner_size(kind, inputs, outputs, params)
    body = params.get("body")
    ulp = target.error_bound(op_name) if target.error_bound else None
    types = operand_types(kind, inputs)
    checks = []

    def beside(result: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """A result beside another golden, with what is documented taken for right."""
        return lambda right: as_documented(op_name, target, [right], [result], operands)[0][0]

    for index in range(max(len(golden), len(got))):
        if index >= len(golden) or index >= len(got):
            checks.append(refused("count", f"expected {len(golden)} results, got {len(got)}"))
            continue
        name = outputs[index].data_type if index < len(outputs) else element_type(golden[index].dtype)
        steps = steps_of(target, kind, name, inner, op_name=op_name, body=body, ulp=ulp, operand_types=types)
        if isinstance(operands, ExactOperands) and steps is not None:
            steps = operands.with_mean(steps, golden[index].dtype)
        row_of = partial(tolerance, target, kind, inner=inner, op_name=op_name, body=body, ulp=ulp)
        case = _Case(golden, given, got, came, index, name, row_of, steps, op_name, operands, params, target)
        result = _answer(case, beside(came[index]))
        if index in documented:
            result = _flagged(result, "documented_tail")
        if not result.passed:
            result = _by_documented_steps(case, result, beside(came[index]))
        checks.append(result if target.tiled else _without_tiles(result))
    if op_name == "stablehlo.sort" and not all(check.passed for check in checks):
        checks = ties.excused(golden, got, params, checks, lambda got: operands is None or operands.in_order(got))
    if op_name == TOP and ties.picks(params) and operands is not None and not all(check.passed for check in checks):
        checks = ties.picked(operands.inputs[0], golden, got, params, checks)
    return checks


def _answer(case: _Case, documented: Callable[[np.ndarray], np.ndarray]) -> ResultCheck:
    """The verdict on one result, after all questions. `documented`: another golden -> the result with what is
    documented taken for that."""
    result = case.judged(documented=documented)
    for question in QUESTIONS:
        if question.of_right in (None, result.passed):
            result = question.answer(case, result)
    return result


def _by_documented_steps(
    case: _Case, result: ResultCheck, documented: Callable[[np.ndarray], np.ndarray]
) -> ResultCheck:
    """The verdict on a result that is wrong, with the elements taken for right that a card's documented steps give."""
    where = by_documented_steps(case.op_name, case.target, case.right, case.result, case.operands)
    if where is None:
        return result
    others = [*case.got[: case.index], np.where(where, case.right, case.result), *case.got[case.index + 1 :]]
    again = _answer(replace(case, got=others, came=others), lambda right: np.where(where, right, documented(right)))
    return _flagged(again, "documented_tail") if again.passed else result


@dataclass(frozen=True)
class _Case:
    """One result of an op, and by what it is judged."""

    golden: Sequence[np.ndarray]
    body: Sequence[np.ndarray]
    """What the op's own body gives."""
    got: Sequence[np.ndarray]
    """What came, but the golden where it is what is documented."""
    came: Sequence[np.ndarray]
    index: int
    type_name: str
    """The result's element type."""
    row_of: Callable[[str], Tolerance]
    """The table's row of an element type."""
    steps: Steps | None
    op_name: str
    operands: Operands | None
    params: Mapping[str, str]
    target: Target

    @cached_property
    def row(self) -> Tolerance:
        """The table's row of this result."""
        return self.row_of(self.type_name)

    @property
    def right(self) -> np.ndarray:
        """This result's golden."""
        return self.golden[self.index]

    @property
    def result(self) -> np.ndarray:
        """What came of it."""
        return self.got[self.index]

    @property
    def exact(self) -> ExactOperands | None:
        """The operands of an op that has a formula."""
        return self.operands if isinstance(self.operands, ExactOperands) else None

    def judged(self, **other: Any) -> ResultCheck:
        """The verdict by golden and operands; or by others, or on another result."""
        known = {"golden": self.golden, "got": self.got, "operands": self.operands, **other}
        return _judged(**known, index=self.index, row=self.row, steps=self.steps, op_name=self.op_name)


def _refused(result: ResultCheck, reason: str, question: str = "systematic") -> ResultCheck:
    return result.model_copy(update={"passed": False, "reason": reason, "question": question})


def _flagged(result: ResultCheck, flag: str) -> ResultCheck:
    return result.model_copy(update={"flags": tuple(dict.fromkeys((*result.flags, flag)))})


def _of_cut_operands(case: _Case, first: ResultCheck) -> ResultCheck:
    """The verdict on a product whose operands the matrix unit cuts to so many bits, and which may be right.

    It is right by what is left of them, each on either side, or by what they were. Returns `first` for other ops, and
    where the unit leaves out a part of the product.
    """
    golden, got, steps, operands = case.right, case.result, case.steps, case.operands
    if steps is None or operands is None or case.target.narrow_dst:
        return first
    plain = operands.op_name in table.MULTIPLYING and not (steps.stored or steps.left_out or steps.block)
    if not plain or not any(steps.cut) or first.flags:
        return first
    factors = [*operands.inputs] * (2 if operands.op_name == "chlo.square" else 1)
    if len(factors) != 2:
        return first
    alone, why = replace(steps, cut=(0.0, 0.0)), first
    with np.errstate(all="ignore"):
        for lost in (steps.cut, steps.cut[::-1], (0.0, 0.0)):
            product = np.multiply(*(cut_to(wide(x), steps.kept(each)) for x, each in zip(factors, lost, strict=True)))
            unrounded = Unrounded.of(product, golden.dtype) if steps.counts_ties else None
            again = check_unrounded(rounded(product, golden.dtype), got, case.row, Scale(alone), unrounded)
            if again.passed:
                return first
            why = again if lost is steps.cut else why
    return _refused(first, why.reason, why.question)


def _cut_in_sums(case: _Case, result: ResultCheck) -> ResultCheck:
    products = int(case.params.get(PRODUCTS_IN_A_ROW, 0)) if case.row.truncates else 0
    return check_truncated(case.right, case.result, case.row, products, result, case.steps) if products else result


def _unstated(case: _Case, result: ResultCheck) -> ResultCheck:
    if case.operands is None or not whole_numbers.is_whole(case.right) or case.right.shape != case.result.shape:
        return result
    anything = whole_numbers.unstated(case.op_name, case.operands.inputs, case.right.dtype)
    if anything is None or not anything.any():
        return result
    again = case.judged(got=[np.where(anything, case.right, y) for y in case.got])
    return _flagged(again, "unstated") if again.passed else again


def _quantised(case: _Case, result: ResultCheck) -> ResultCheck:
    if QUANTISED not in case.params or case.operands is None or case.type_name.startswith(("f", "bf")):
        return result
    return halves.excused(case.right, case.result, case.index, result, case.operands, case.row_of("f32").relative_l2)


def _beside_body(case: _Case, result: ResultCheck) -> ResultCheck:
    """The verdict on a result by its formula, with what the op's body says: one that is wrong by the formula may be
    right by a body whose constants are rounded to its type. A body that computes something else is no excuse, and is
    said (flag `body_differs`)."""
    if case.exact is None or not case.exact.has_body:
        return result
    if not case.judged(got=case.body, operands=case.exact.stepwise()).passed:
        return _flagged(result, "body_differs")
    if result.passed or not _has_numbers(result):
        return result
    again = case.judged(golden=case.body)
    return _flagged(again, "as_body") if again.passed else result


def _by_the_matrix_unit(case: _Case, result: ResultCheck) -> ResultCheck:
    if case.exact is None or not (case.exact.has_kernels and _has_numbers(result)):
        return result
    by_unit = case.judged(operands=case.exact.read_by_the_matrix_unit())
    return _leaning(case, by_unit) if by_unit.passed else result


def _leaning(case: _Case, result: ResultCheck) -> ResultCheck:
    """A result that is right by what the matrix unit cuts, unless it is off on the mean, along the golden, by more than
    that takes off the terms of one step: what it makes shorter in one step it makes longer in another."""
    got, index, operands = case.result, case.index, case.exact
    assert operands is not None
    exact, most = operands.exact[index], cut_of(operands.target, "matmul", element_type(got.dtype))
    with np.errstate(all="ignore"):
        width = operands.usually()[index] + last_place(exact, got.dtype) / 2
        along, size = exact / width, np.square(exact / width)
        use = np.isfinite(size)
        slope = float((((wide(got) - exact) / width * along)[use]).sum() / size[use].sum())
    if got.size < SYSTEMATIC_FROM or got.dtype.itemsize < 4 or not abs(slope) > most:
        return result
    reason = f"systematic error: wrong by {slope:+.2%} of the golden, at most {most:.2%} is right"
    return _refused(result, reason)


def _by_other_steps(case: _Case, result: ResultCheck) -> ResultCheck:
    known = _has_numbers(result) and case.exact
    if not known or not other_steps.are_these(known, case.came[case.index], case.index):
        return result
    return _flagged(result.model_copy(update={"passed": True, "reason": "", "question": ""}), "as_body")


def _in_documented_form(case: _Case, result: ResultCheck) -> ResultCheck:
    for _, other in case.exact.in_documented_forms() if case.exact is not None and _has_numbers(result) else ():
        again = case.judged(golden=other.golden, operands=other)
        if again.passed:
            return _flagged(again, "documented_tail")
    return result


def _too_coarse(case: _Case, result: ResultCheck) -> ResultCheck:
    """The verdict on a result whose numbers all have no more digits than bfloat16, though its type and the right ones
    have: something rounded it in between. Of 64 honest numbers of 11 fraction bits one in 10^57 is so; where terms
    cancel, any may be."""
    g, d, steps = case.right, case.result, case.steps
    if steps is None or case.target.narrow_dst:
        return result
    wider = g.dtype.kind == "f" and steps.stored_as and FRACTION_BITS[steps.stored_as] > COARSE
    known = not (steps.stored or steps.block or steps.error_model == "part" or max(steps.cut) >= 2.0**-COARSE / 2)
    if not (wider and known) or g.size < SYSTEMATIC_FROM:
        return result
    right, came = np.ravel(g), np.ravel(d)
    if (cut_to(wide(came[:SAMPLED]), COARSE) != wide(came[:SAMPLED])).mean() > FEW:
        return result  # as nearly all are
    right, came = wide(right), wide(came)
    use = np.flatnonzero(np.isfinite(right) & np.isfinite(came) & (came != 0) & (cut_to(right, COARSE) != right))
    finer = use[cut_to(came[use], COARSE) != came[use]]
    for some in (finer[:SAMPLED], finer, use):  # one finer number says enough
        firm = some
        if case.exact is not None and some.size and (within := case.exact.within_at(some, case.index)) is not None:
            firm = some[within <= 8 * 2.0**-COARSE * np.abs(right[some])]
        if some is not use and firm.size:
            return result
    seen = int(firm.size)
    if seen < SYSTEMATIC_FROM:
        return result
    return _refused(result, f"all {seen} results are numbers of bfloat16, and the right ones are not")


def _rounded_twice(case: _Case, result: ResultCheck) -> ResultCheck:
    """The verdict on a result of 16 or 8 bits that is right by the rounded golden: no element of a host that rounds no
    step in between is farther from what the formula gives before it is rounded than its steps and one rounding take it.
    So few values need no mean."""
    got, index, operands = case.result, case.index, case.exact
    if operands is None:
        return result
    narrow = got.dtype.itemsize <= 2 and is_float(got)
    by_name = not operands.module  # of a module XLA's own result is right too, which may round steps
    if not (narrow and by_name and result.max_abs) or result.flags or operands.stepwise() is operands:
        return result
    exact, most = operands.exact[index], float(ml_dtypes.finfo(got.dtype).max)
    with np.errstate(all="ignore"):
        off, half = np.abs(wide(got) - exact), last_place(exact, got.dtype) / 2
        if got.dtype.itemsize == 1:  # it may have been rounded to float16 before
            half = half + unit("Float16") * np.abs(exact)
        off = np.where(np.isfinite(off) & (np.abs(exact) < most), off - half, 0.0)
    places = np.flatnonzero(off > 0)
    if not places.size or (within := operands.within_at(places, index)) is None:
        return result
    farther = places[off.flat[places] > SLACK * within]
    if not farther.size:
        return result
    at = int(farther[np.argmax(off.flat[farther])])
    value, right = float(got.flat[at]), float(exact.flat[at])
    reason = f"{value:.6g} is not rounded to nearest from {right:.9g}, nor from what steps may give, at element {at}"
    return _refused(result, reason, "rounding")


def _of_few(case: _Case, result: ResultCheck) -> ResultCheck:
    """The verdict on a result of 8 bits of a host: each element is one of the few numbers that honest steps give."""
    steps, got, operands = case.steps, case.result, case.operands
    own = steps is not None and not (steps.packer or steps.stored or steps.joined or steps.error_model == "part")
    alike = got.shape == case.right.shape and got.dtype == case.right.dtype and got.dtype.itemsize == 1
    if steps is None or operands is None or not (own and alike and is_float(got)):
        return result
    several = case.target.sums_in_own_type and (case.op_name.startswith("chlo.") or steps.error_model == "sum")
    if case.exact is not None and case.exact.has_steps:
        a_way = eight_bits.by_one_way(case.exact, got, case.index)
        if a_way and not result.passed:
            return _flagged(result.model_copy(update={"passed": True, "reason": "", "question": ""}), "as_body")
        reason = (
            "" if a_way is not False else "not what its steps give, each rounded to nearest or not, in all elements"
        )
    elif result.passed and result.max_abs and not several:
        try:
            reason = eight_bits.not_nearest(steps, operands, case.right, got, case.index)
        except NotEvaluatedError:
            reason = ""
    else:
        reason = ""
    return _refused(result, reason, "rounding") if reason and result.passed else result


def _mistaken(case: _Case, result: ResultCheck) -> ResultCheck:
    """The verdict on a result that is right within what its steps may cost, unless it is another formula's.

    Its errors are measured along what the two formulas differ by, in each group of values (row of a norm, channel) by
    itself: 1 in each is that formula's. Of honest steps a variance is off by chance, in each group by another share: so
    one that is off as only one pass over its values may be is not off the same way in all.
    """
    got, index, operands = case.result, case.index, case.exact
    if operands is None or not result.max_abs or operands.meaning is None or (other := operands.mistaken) is None:
        return result
    exact = operands.exact[index]
    with np.errstate(all="ignore"):
        off = wide(got) - exact
        error, step = map(operands.meaning.grouped, (off, other[index] - exact))
        sizes = np.square(step).sum(axis=1)
        shares = (error * step).sum(axis=1) / sizes
        at_once = False
        if not operands.target.tiled and got.dtype.itemsize >= 4:
            at_once = bool((np.abs(off) > operands.usually()[index] + last_place(exact, got.dtype) / 2).any())
    # Equal groups are off alike.
    shares = shares[np.unique(np.where(np.isfinite(shares), sizes, 0.0), return_index=True)[1]]
    shares = shares[np.isfinite(shares)]
    if shares.size < GROUPS:
        return result
    mean, chance = float(shares.mean()), float(shares.std(ddof=1)) / math.sqrt(shares.size)
    reason = ""
    if chance <= MISTAKEN / 2 and abs(mean - 1) <= MISTAKEN:
        reason = f"a variance over N - 1 in place of N in {shares.size} groups of values"
    elif at_once and shares.size >= MANY and abs(mean) > ALONE * chance:
        reason = f"a variance that is off the same way in {shares.size} groups of values"
    return _refused(result, reason) if reason else result


def _in_some_alone(case: _Case, result: ResultCheck) -> ResultCheck:
    if case.exact is None or "as_body" in result.flags:
        return result
    some = other_steps.only_in_some(case.exact, case.came[case.index], case.index)
    reason = f"{some} elements are off as steps of 16 bits are, which show in no others"
    return _refused(result, reason, "largest") if some else result


class _Question(NamedTuple):
    """What is asked of a result that was judged by golden and operands."""

    of_right: bool | None
    """Whether it is asked of what is right so far, or of what is wrong; None: of both."""
    answer: Callable[[_Case, ResultCheck], ResultCheck]
    finds: str


QUESTIONS = (
    _Question(True, _of_cut_operands, "wrong: a product of something else than what the matrix unit cuts operands to"),
    _Question(False, _cut_in_sums, "right: sums of products that the unit cuts one after another"),
    _Question(False, _unstated, "right: integers where StableHLO leaves the result open"),
    _Question(False, _quantised, "right: values in the middle of two steps of a quantised type"),
    _Question(None, _beside_body, "right: what the body gives in whose place a formula stands, where they agree"),
    _Question(False, _by_the_matrix_unit, "right: what a card's own kernels for sums lose of their steps"),
    _Question(False, _by_other_steps, "right: other honest steps throughout"),
    _Question(False, _in_documented_form, "right: another function that a card's kernel is documented to compute"),
    _Question(True, _too_coarse, "wrong: numbers of bfloat16 in a finer type"),
    _Question(True, _rounded_twice, "wrong: numbers of 16 or 8 bits that no one rounding of a host gives"),
    _Question(
        None, _of_few, "wrong: numbers of 8 bits that no honest steps of a host give; right: those that they give"
    ),
    _Question(True, _mistaken, "wrong: another formula within what the steps may cost"),
    _Question(True, _in_some_alone, "wrong: elements off as rounded steps are, among others that are exact"),
)
"""Asked in this order, each of what those before left; the last answer is the verdict."""


def operand_types(kind: str, inputs: Sequence[TensorDesc]) -> list[str]:
    """The element types of what a sum adds up or multiplies; none where one factor of a product is a constant of the
    module, whose type is not known."""
    return [] if kind in PRODUCTS and len(inputs) < 2 else [desc.data_type for desc in inputs]


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
    documented: Callable[[np.ndarray], np.ndarray] | None = None,
) -> ResultCheck:
    """The verdict on one result: by the golden first, then by its operands. `documented`: another golden -> the result
    with what is documented taken for it."""
    g, d = golden[index], got[index]
    if isinstance(operands, ExactOperands) and g.shape == d.shape and g.dtype == d.dtype:
        g, by_steps = overflows.settled(operands, g, d, index)
        if g is not golden[index]:
            beside = [*golden[:index], g, *golden[index + 1 :]]
            result = _judged(beside, got, index, row, steps, op_name, operands, documented)
            return result.model_copy(update={"flags": (*result.flags, "body_overflows")}) if by_steps else result
    if steps is None or g.shape != d.shape or g.dtype != d.dtype:
        result = check(g, d, row)
    elif operands is not None and (
        (result := _converted(g, d, row, steps, operands)) is not None
        or (result := _in_blocks(golden, got, index, row, steps, operands)) is not None
    ):
        pass
    else:
        kept = operands.kept()[index] if operands is not None and operands.sums and operands.kept is not None else None
        usual = steps.cuts / 2 if operands is not None and operands.sums and not steps.stored else None
        known, hasty = operands is not None, operands is not None and operands.has_steps
        scale = Scale(steps, terms=kept, lost=usual, first_look=known, hasty=hasty)
        result = check(g, d, row, scale, strict=known)
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
    for flag, other, by in _other_goldens(g, d, index, steps, operands, documented):
        try:
            right = other()
            d = documented(right) if documented else got[index]
            again = check(right, d, row, by or scale)
            if by is None and steps is not None and (steps.rounded if again.passed else operands.has_steps):
                # What denormals explain in a few elements is no leave to be off on the mean, nor that steps round.
                beside = [*golden[:index], right, *golden[index + 1 :]]
                known = _by_operands(beside, [*got[:index], d, *got[index + 1 :]], index, row, steps, operands)
                again = known if known.passed or known.question == "systematic" else again
        except NotEvaluatedError:
            continue
        if again.passed:
            return again.model_copy(update={"flags": tuple(dict.fromkeys((*again.flags, flag)))})
    return result


def _other_goldens(
    golden: np.ndarray,
    got: np.ndarray,
    index: int,
    steps: Steps | None,
    operands: Operands,
    documented: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Iterator[tuple[str, Callable[[], np.ndarray], Scale | None]]:
    """What else is right, why, and by which scale if not by the usual one: other treatments of denormals, terms as the
    matrix unit reads them, an initial value that enters as often as XLA takes it, and on a host steps that XLA rounds
    to an op's own type of 16 bits or fewer."""
    for run in _other_denormals(got, operands):
        yield "denormal_flush", lambda run=run: _changed_by(run, golden, got, index, operands), None
    if steps is None:
        return
    if steps.packer and golden.dtype.kind != "c" and has_denormals([got, *operands.inputs]):
        yield "denormal_flush", lambda: _nearest_flushed(golden, got, index, operands, documented), None
    in_steps = operands.op_name in GOLDEN_IN_STEPS["bf16"] and golden.dtype.itemsize == 1
    in_steps |= op_family(operands.op_name) == "reduce" and golden.dtype.itemsize == 1
    in_steps |= steps.error_model == "part" or op_family(operands.op_name) == "pool"
    if steps.declared and not steps.packer and in_steps:
        sizes = operands.term_sizes[index] if operands.sums else None
        yield "as_body", lambda: operands.run_as_written()[index], Scale(steps, terms=sizes)
    if not operands.sums or op_family(operands.op_name) not in ("reduce", "pool"):
        return
    if steps.reads is not None and not steps.stored:
        # Equal terms lose alike, and the largest of a few sums has no bound: here the loss is known.
        added = operands.added_alike(steps, index)
        exact = Scale(replace(steps, cut=(0.0, 0.0), added=added), terms=operands.term_sizes[index])
        yield "truncation", lambda: operands.run_cut(steps.reads or 0)[index], exact
    if len(operands.inputs) > 1:
        yield "initial_value", lambda: operands.run_as_written()[index], Scale(steps, terms=operands.term_sizes[index])


def _changed_by(
    run: Callable[[], Sequence[np.ndarray]], golden: np.ndarray, got: np.ndarray, index: int, operands: Operands
) -> np.ndarray:
    """The golden with the elements that another treatment of denormals changes, and no others: a suite's stored answers
    are not XLA's. What becomes zero is that where it came as zero; beside it any denormal would be right."""
    other, plain = run()[index], operands.run(operands.inputs)[index]
    same = (other == plain) | ((other != other) & (plain != plain)) | ((other == 0) & (got != 0))
    return np.where(same, golden, other).astype(golden.dtype)


def _nearest_flushed(
    golden: np.ndarray,
    got: np.ndarray,
    index: int,
    operands: Operands,
    documented: Callable[[np.ndarray], np.ndarray] | None,
) -> np.ndarray:
    """The golden with each element that a denormal reaches as with that, with zero, or with a zero of its sign, as it
    came: a card's kernels differ in what they look at first, an operand's sign or its size."""
    beside = documented or (lambda _: got)
    right, off = golden, _apart(golden, beside(golden))
    others = []
    if isinstance(operands, ExactOperands):  # what is rounded to a normal number may be flushed before
        tiny = np.abs(operands.exact[index]) < smallest_normal(golden.dtype)
        others.append(np.where(tiny, 0, golden).astype(golden.dtype))
    for signed in (False, True):
        if (flushed := without_denormals(operands.inputs, signed=signed)) is not None:
            others.append(_changed_by(partial(operands.run, flushed), golden, got, index, operands))
    for other in others:
        nearer = (now := _apart(other, beside(other))) < off
        right, off = np.where(nearer, other, right), np.where(nearer, now, off)
    return right


def _apart(right: np.ndarray, got: np.ndarray) -> np.ndarray:
    """How far two arrays are apart, float64: 0 where both are NaN or the same infinity, infinite where one is."""
    with np.errstate(invalid="ignore"):
        g, d = wide(right), wide(got)
        same = (g == d) | (np.isnan(g) & np.isnan(d))
        return np.where(same, 0.0, np.where(np.isfinite(g) & np.isfinite(d), np.abs(g - d), np.inf))


def _other_denormals(got: np.ndarray, operands: Operands) -> Iterator[Callable[[], Sequence[np.ndarray]]]:
    """How else the op may be computed: with denormal operands as zero, or as one of their sign, as devices do;
    with denormals as they are, as hosts do. The golden is XLA's, which makes those of some ops zero."""
    for signed in (False, True):
        if (flushed := without_denormals(operands.inputs, signed=signed)) is not None:
            yield partial(operands.run, flushed)
    if has_denormals([got, *operands.inputs]):
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
    """The verdict on a result whose error the golden alone does not excuse: by the sizes of its operands. By those of
    the usual steps first, which excuse most that is honest."""
    if isinstance(operands, ExactOperands) and (usual := operands.by_usual_steps()) is not None:
        result = _by_operands(golden, got, index, row, steps, usual)
        if result.passed:
            return result
    g, d = golden[index], got[index]
    terms = operands.term_sizes[index] if operands.sums else None
    within = operands.within()
    moved = operands.moved(steps, golden)[index] if steps.by_operands and (within is None or steps.stored) else None
    if moved is not None and g.dtype.kind == "c":
        moved = moved + (steps.function + steps.packed + 2 * steps.declared + steps.cuts) * magnitude(g)
    lost = operands.lost(steps, g, index) if steps.error_model == "sum" and any(steps.cut) else None
    constant = steps.stored > 0 and operands.op_name in BINARY and len(operands.inputs) == 1
    alike, result = steps.stored if constant else 0.0, None
    blocks = steps.block and steps.stored and steps.error_model == "bound" and g.dtype.kind != "c"
    offsets = operands.off_in_blocks(steps.stored_as, g, index) if blocks else ()
    for unrounded in _before_rounding(g, index, steps, operands):
        scale = Scale(steps, terms=terms, moved=moved, lost=lost, alike=alike)
        scale = replace(scale, offsets=offsets)
        if within is not None:
            usual, leaning = operands.usually()[index], operands.leaning()[index]
            scale = replace(scale, within=within[index], usual=usual, leaning=leaning)
        again = check_unrounded(g, d, row, scale, unrounded)
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
    if steps.last_place:
        yield Unrounded.without_ties(golden)
        return
    single = golden.dtype.kind == "f" and golden.dtype.itemsize >= 4
    if not steps.stored or steps.stored_as not in (*STORED_TYPES, "Bfp8"):
        counted, real = steps.counts_ties, golden.dtype.kind != "c"
        if counted and real:
            exact = operands.run_wide()[index]
            yield Unrounded.of(exact, golden.dtype)
            if operands.op_name in ADDED_IN_REGISTERS:
                yield Unrounded.of(rounded_away(exact, SRC_B["full"]), golden.dtype)
        elif steps.declared and real and not different(golden, SYSTEMATIC_FROM):
            yield Unrounded.without_ties(operands.run_wide()[index])
        else:
            yield None
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
