"""The call `judge("tanh", x, y)`. It asks the code that a run asks (`verdict/compare.py`); nothing else decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.harness.explain.element_errors import Judged
from opscope.harness.judge.asked import asked
from opscope.harness.judge.known_op import Asked, UnknownError, of_golden
from opscope.harness.judge.promise import Promise, promised
from opscope.harness.judge.tensors import as_array, described
from opscope.harness.judge.verdict import Verdict
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import ResultCheck
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.target import Target

BY_BODY = frozenset({"as_body", "body_overflows"})
"""Flags of what no better evaluation gives than one step by step."""
BIT = 1e-3
"""Units in the last place by which a kernel's stated accuracy may be exceeded: the float64 of a formula errs too."""


def judge(what: Any, inputs: Any, output: Any, *, target: str | float | Target = "ieee", golden: Any = None) -> Verdict:
    """Whether `output` is what `what` gives on `inputs`, and by how much it is off.

    `what`: an elementwise op (`"tanh"`, `"stablehlo.exponential"`, `"chlo.erf"`), `"matmul"`, a formula with its
    attributes (`"gelu"`, `"softmax(axis=-1)"`, `"sdpa"`; `opscope judge --list`), a StableHLO text (XLA makes its
    golden), a function of float64 arrays, or None, where only `golden` says what is right.
    `inputs`, `output`, `golden`: one tensor, or a list or tuple of several, of NumPy, PyTorch, JAX or ttnn. The element
    types of `output` are those that the result is rounded to.
    `target`: what was promised: `"ieee"`, `"steps"`, `"bf16"`, `"f16"`, `"tf32"`, `"card:HiFi2"`, an accuracy in units
    in the last place (`"2 ulp"`, `2.0`), or a Target.
    `golden`: what the caller takes for right. Where `what` has a formula that decides, and the golden is judged too.

    Error bounds: docs/verdicts.md; formulas, their sizes and sources: `harness/formulas/table.py`. Raises InputError (a
    ValueError) for names and operands that do not fit; what nobody can decide is `undecided`, with its reason.
    """
    promise = promised(target)
    feed = [as_array(each, f"input {number}") for number, each in enumerate(_several(inputs))]
    got = [as_array(each, f"output {number}") for number, each in enumerate(_several(output))]
    given = [as_array(each, f"golden {number}") for number, each in enumerate(_several(golden))]
    if not got:
        raise InputError("output", "a tensor, or several", "none")
    if what is None and not given:
        raise InputError("what", "an op, a formula, a StableHLO text or a function, or golden=", "None")
    try:
        op = of_golden(given) if what is None else asked(what, feed, got, promise.target)
        _ = op.golden  # what cannot be computed is found out here
    except UnknownError as error:
        if not given:
            return Verdict("undecided", str(error), "", "", promise.text, (), _inputs=tuple(feed))
        op = of_golden(given)
    with np.errstate(all="ignore"):  # NaN, infinities and denormals are part of the question
        return _verdict(op, feed, got, given, promise)


def _several(tensors: Any) -> Sequence[Any]:
    """One tensor as a list of one; None as none. A list of numbers is one tensor."""
    if tensors is None:
        return []
    alone = isinstance(tensors, list | tuple) and tensors and all(isinstance(x, bool | int | float) for x in tensors)
    return [tensors] if alone or not isinstance(tensors, list | tuple) else tensors


def _verdict(
    op: Asked, feed: list[np.ndarray], got: list[np.ndarray], given: list[np.ndarray], promise: Promise
) -> Verdict:
    checks = _checks(op, got, feed, promise.target)
    exact = op.exact
    judged = Judged(
        op.op_name,
        promise.target,
        [described(x) for x in feed],
        [described(y) for y in got],
        op.params,
        op.golden,
        got,
        op.operands,
    )
    known = {
        "by": op.by,
        "promise": promise.text,
        "checks": tuple(checks),
        "golden_checks": tuple(_checks(op, given, feed, promise.target)) if given and op.by != "the caller" else (),
        "_judged": judged,
        "_exact": None if exact is None else tuple(exact),
        "_inputs": tuple(feed),
    }
    wrong = next((check for check in checks if not check.passed), None)
    if wrong is not None:
        return Verdict("wrong", _reason(checks), "", **known)
    if not sum(y.size for y in got):
        return Verdict("undecided", "expected a result with elements, got none", "", **known)
    verdict = Verdict("right", "", "op", **known)
    most = 0.0 if op.chooses else promise.ulp
    if most is not None and not verdict.largest_ulp <= most + BIT * (most > 0):
        return Verdict("wrong", f"expected at most {most:g} ulp, got {verdict.largest_ulp:.4g}", "", **known)
    if most is not None or all(check.tolerance == "exact" for check in checks):
        return Verdict("right", "", "kernel", **known)
    by_body = verdict.cancelled is not None or not BY_BODY.isdisjoint(verdict.flags)
    return Verdict("right", "", "body", **known) if by_body else verdict


def _checks(op: Asked, got: list[np.ndarray], feed: list[np.ndarray], target: Target) -> list[ResultCheck]:
    """What a run's record would say of each result."""
    return compare(
        op.golden,
        got,
        op.op_name,
        target,
        inputs=[described(x) for x in feed],
        outputs=[described(y) for y in got],
        params=op.params,
        operands=op.operands,
    )


def _reason(checks: Sequence[ResultCheck]) -> str:
    """The first reason, with the number of its result if there are several."""
    number = next(n for n, check in enumerate(checks) if not check.passed)
    return checks[number].reason if len(checks) == 1 else f"result {number}: {checks[number].reason}"
