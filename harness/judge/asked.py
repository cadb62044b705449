"""What a caller names, `"tanh"`, `"softmax(axis=-1)"`, a StableHLO text or a function, as an op with a golden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from opscope.base.op_families import NAMES
from opscope.harness.formulas import attributes
from opscope.harness.formulas.elementwise import ALIASES, CHOICES, full_name
from opscope.harness.formulas.elementwise import FORMULAS as ELEMENTWISE
from opscope.harness.formulas.table import FORMULAS
from opscope.harness.formulas.whole_numbers import INTEGERS, is_whole
from opscope.harness.judge.by_integers import of_integers
from opscope.harness.judge.by_meaning import by_meaning, conversion, elementwise, product, total
from opscope.harness.judge.known_op import Asked, UnknownError, unfit
from opscope.harness.judge.module_verdict import ModuleVerdict
from opscope.harness.record.errors import InputError, closest
from opscope.harness.verdict.meaning import COMPOSITE, of_formula, of_function
from opscope.harness.verdict.target import Target

OF_ONE = {"max": "amax", "min": "amin", "clamp": "hardtanh"}
"""A name that stands for another function where there is but one operand."""
TEXT = "a text as `jax.jit(f).lower(x).as_text()` prints it, or a name (`opscope judge --list`)"
"""What helps where a StableHLO text is not valid."""


def asked(what: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], target: Target) -> Asked:
    """The op that `what` names, on its inputs, with results of the types of `outputs`.

    Raises InputError for a name that nobody knows and for inputs that the op does not take, UnknownError for an op that
    has no formula and that cannot be computed here.
    """
    if callable(what):
        name = getattr(what, "__name__", type(what).__name__)
        return by_meaning(COMPOSITE, of_function(what, name), inputs, outputs, target)
    if isinstance(what, bytes) or "func.func" in what or "stablehlo." in what.partition("\n")[2]:
        return _module(what if isinstance(what, bytes) else what.encode(), inputs)
    name = str(what).strip()
    if name in ("matmul", "dot", "mm", "bmm"):
        return product(inputs, outputs, target)
    full = full_name(name)
    bare = ALIASES.get(name, name).removeprefix("stablehlo.")
    called, *attributes_of = name.partition("(")
    of_one = OF_ONE.get(called) if len(inputs) == 1 else None
    if bare == "convert" and len(inputs) == 1:
        return conversion(inputs, outputs, target)
    if bare in INTEGERS and of_one is None and all(map(is_whole, (*inputs, *outputs))):
        return of_integers(bare, inputs, outputs)
    if (full in ELEMENTWISE or full in CHOICES) and of_one is None:
        return elementwise(full, inputs, outputs, target)
    if of_one is not None:
        name = "".join((of_one, *attributes_of))
    try:
        formula, row, given = attributes.named(name)
    except attributes.UnknownFormulaError as error:
        bare = name.partition("(")[0].rpartition(".")[2]
        if bare in NAMES:
            raise UnknownError(f"{name} has no formula; give it as a StableHLO text, or with golden=") from None
        if bare in FORMULAS:
            raise InputError("what", *_parts(error), bare) from None
        near = closest(bare, [*FORMULAS, *ALIASES, *(each.partition(".")[2] for each in ELEMENTWISE)], 6)
        raise InputError("what", "an op, a formula, a StableHLO text or a function", repr(what), near) from None
    if len(inputs) not in row.operands:
        counts = " or ".join(map(str, row.operands))
        raise InputError("inputs", f"{counts} of {formula}", str(len(inputs)))
    if formula == "sum":
        return total(row, given, inputs, outputs, target)
    try:
        meaning = of_formula(formula, given, len(inputs), row.terms(*inputs, **given))
    except (TypeError, IndexError, ValueError) as error:
        raise unfit(formula, inputs, error) from error
    assert meaning is not None
    return replace(by_meaning(COMPOSITE, meaning, inputs, outputs, target), chooses=row.chooses)


def _parts(error: Exception) -> tuple[str, str]:
    expected, _, got = str(error).removeprefix("expected ").partition(", got ")
    return expected, got


def _module(module: bytes, inputs: Sequence[np.ndarray]) -> Asked:
    """A StableHLO module by XLA. Raises UnknownError where jaxlib is not installed or XLA refuses."""
    try:
        from importlib.metadata import version

        from opscope.harness.prepare.authorities import formulas, known_wrong
        from opscope.harness.prepare.golden import GoldenError, compile_module
    except ImportError as error:
        raise UnknownError(f"a StableHLO text needs jaxlib: {error}; try pip install jaxlib") from error
    verdict = ModuleVerdict(module, inputs)

    def golden() -> list[np.ndarray]:
        if verdict.op is not None and verdict.operands is not None and known_wrong.formula_of(verdict.op) is not None:
            return formulas.computed(verdict.op, verdict.operands.inputs)
        if verdict.sized_as_it_runs:
            raise UnknownError("a result has a size that is set at run time; XLA gives it at its bound, packed")
        try:
            return compile_module(module, widen=True)(inputs)
        except GoldenError as error:
            raise UnknownError(f"XLA: {error}") from error

    try:
        op = verdict.op
    except InputError as error:
        where = f"what{error.where.removeprefix('case')}"
        raise InputError(where, error.expected, error.got, error.hint or TEXT) from None
    name = COMPOSITE if op is None else op.op_name
    return Asked(name, f"XLA, jaxlib {version('jaxlib')}", verdict.operands, golden, {} if op is None else op.op_params)
