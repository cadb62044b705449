"""What a caller names, `"tanh"`, `"softmax(axis=-1)"`, a StableHLO text or a function, as an op with a golden."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from opscope.base.op_families import NAMES, TO_THE_LAST_BIT
from opscope.harness.formulas import attributes, whole_numbers
from opscope.harness.formulas.elementwise import ALIASES, CHOICES, full_name
from opscope.harness.formulas.elementwise import FORMULAS as ELEMENTWISE
from opscope.harness.formulas.formula import Formula
from opscope.harness.formulas.table import FORMULAS
from opscope.harness.formulas.whole_numbers import INTEGERS, MOST, NotWholeError, is_whole
from opscope.harness.judge.module_verdict import ModuleVerdict
from opscope.harness.record.errors import InputError, closest
from opscope.harness.verdict.check import element_type
from opscope.harness.verdict.meaning import COMPOSITE, ExactOperands, Meaning, decides, of_formula, of_function
from opscope.harness.verdict.operands import NotEvaluatedError, Operands
from opscope.harness.verdict.target import Target

OF_ONE = {"max": "amax", "min": "amin", "clamp": "hardtanh"}
"""A name that stands for another function where there is but one operand."""
PRODUCT = "stablehlo.dot_general"
PLACES = frozenset({"argmax", "argmin"})
"""Formulas whose results are places in their operand."""
OF_COMPLEX = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("abs", "add", "cosine", "divide", "exponential", "exponential_minus_one", "log", "log_plus_one", "multiply"),
        *("negate", "power", "rsqrt", "sine", "sqrt", "subtract", "tan", "tanh"),
    )
)
"""Elementwise ops that StableHLO has for complex numbers, and NumPy too."""


TEXT = "a text as `jax.jit(f).lower(x).as_text()` prints it, or a name (`opscope judge --list`)"
"""What helps where a StableHLO text is not valid."""


class UnknownError(Exception):
    """Nobody knows what the right result is; the text says why."""


@dataclass
class Asked:
    """An op on known inputs: what the verdict takes besides the results."""

    op_name: str
    by: str
    """Who makes the golden: `gelu in float64`, `XLA, jaxlib 0.10.2`, `the caller`."""
    operands: Operands | None
    golden_of: Callable[[], list[np.ndarray]] = field(repr=False)
    params: dict[str, str] = field(default_factory=dict)
    chooses: bool = False
    """Whether its results are values of its operands, so that no error is right."""

    @cached_property
    def golden(self) -> list[np.ndarray]:
        """The right results, each rounded once. Raises UnknownError."""
        try:
            return self.golden_of()
        except NotEvaluatedError as error:
            raise UnknownError(str(error)) from error

    @property
    def exact(self) -> list[np.ndarray] | None:
        """The right results in float64, before they are rounded; None if only rounded ones are known."""
        return self.operands.exact if isinstance(self.operands, ExactOperands) else None


def asked(what: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], target: Target) -> Asked:
    """The op that `what` names, on its inputs, with results of the types of `outputs`.

    Raises InputError for a name that nobody knows and for inputs that the op does not take, UnknownError for an op that
    has no formula and that cannot be computed here.
    """
    if callable(what):
        name = getattr(what, "__name__", type(what).__name__)
        return _exact(COMPOSITE, of_function(what, name), inputs, outputs, target)
    if isinstance(what, bytes) or "func.func" in what or "stablehlo." in what.partition("\n")[2]:
        return _module(what if isinstance(what, bytes) else what.encode(), inputs)
    name = str(what).strip()
    if name in ("matmul", "dot", "mm", "bmm"):
        return _product(inputs, outputs, target)
    full = full_name(name)
    bare = ALIASES.get(name, name).removeprefix("stablehlo.")
    called, *attributes_of = name.partition("(")
    of_one = OF_ONE.get(called) if len(inputs) == 1 else None
    if bare == "convert" and len(inputs) == 1:
        return _conversion(inputs, outputs, target)
    if bare in INTEGERS and of_one is None and all(map(is_whole, (*inputs, *outputs))):
        return _of_integers(bare, inputs, outputs)
    if (full in ELEMENTWISE or full in CHOICES) and of_one is None:
        return _elementwise(full, inputs, outputs, target)
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
        return _sum(row, given, inputs, outputs, target)
    try:
        meaning = of_formula(formula, given, len(inputs), row.terms(*inputs, **given))
    except (TypeError, IndexError, ValueError) as error:
        raise _unfit(formula, inputs, error) from error
    assert meaning is not None
    return replace(_exact(COMPOSITE, meaning, inputs, outputs, target), chooses=row.chooses)


def of_golden(golden: Sequence[np.ndarray]) -> Asked:
    """An op of which nothing is known but its right results."""
    return Asked("", "the caller", None, lambda: list(golden))


def _parts(error: Exception) -> tuple[str, str]:
    expected, _, got = str(error).removeprefix("expected ").partition(", got ")
    return expected, got


def _exact(
    op_name: str,
    meaning: Meaning,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    target: Target,
    params: dict[str, str] | None = None,
) -> Asked:
    """An op by its meaning."""
    if outputs and all(map(is_whole, outputs)):
        return _whole(op_name, meaning, inputs, outputs)
    inputs = [_as_floats(each) if is_whole(each) else each for each in inputs]
    if any(each.dtype.kind == "c" for each in (*inputs, *outputs)):
        return _complex(op_name, meaning, inputs, outputs)
    types = tuple(each.dtype for each in outputs)
    body = (params or {}).get("body")
    operands = ExactOperands(op_name, b"", partial(list, inputs), body, meaning=meaning, types=types, target=target)

    def golden() -> list[np.ndarray]:
        try:
            last = len(types) - 1  # of another number of results the verdict says so
            operands.types = tuple(types[min(number, last)] for number in range(len(operands.exact)))
            return operands.golden
        except (ValueError, TypeError, IndexError) as error:
            raise _unfit(meaning.by, inputs, error) from error

    by = f"{meaning.by} in float64"
    if meaning.roundings and not decides(meaning, target, outputs):
        return Asked(op_name, by, None, golden, params or {})
    return Asked(op_name, by, operands, golden, params or {})


def _no_formula(by: str, tensors: Sequence[np.ndarray]) -> UnknownError:
    kinds = ", ".join(dict.fromkeys(element_type(each.dtype) for each in tensors))
    return UnknownError(f"{by} of {kinds} has no formula; give it as a StableHLO text, or with golden=")


def _as_floats(x: np.ndarray) -> np.ndarray:
    """Integers as float64, of an op whose results are floats. Raises UnknownError for what is too large for it."""
    numbers = x.astype(np.float64)
    if x.dtype.kind in "iu" and (np.abs(numbers) >= MOST).any():
        raise UnknownError(f"integers of {MOST:g} and more have no float64; give the op as a StableHLO text")
    return numbers


def _stated(
    op_name: str, by: str, outputs: Sequence[np.ndarray], of: Callable[[], list[tuple[np.ndarray, np.ndarray]]]
) -> Asked:
    """An op whose results have one right value each, but for elements of which nothing says what comes: `of` gives
    both."""

    def golden() -> list[np.ndarray]:
        made = of()
        if all(unstated.all() and unstated.size for _, unstated in made):
            raise UnknownError(f"nothing says what {by} gives for any of these elements")
        came = [outputs[min(number, len(outputs) - 1)] for number in range(len(made))]
        return [
            np.where(unstated, y, right) if unstated.any() and y.shape == right.shape else right
            for (right, unstated), y in zip(made, came, strict=True)
        ]

    return Asked(op_name, by, None, golden)


def _of_integers(name: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Asked:
    """An op of StableHLO on integers or truth values."""

    def made() -> list[tuple[np.ndarray, np.ndarray]]:
        try:
            return [whole_numbers.of_integers(name, inputs, outputs[0].dtype)]
        except (TypeError, ValueError) as error:
            raise _unfit(name, inputs, error) from error

    return _stated(f"stablehlo.{name}" if name in NAMES else COMPOSITE, f"{name} of integers", outputs, made)


def _whole(op_name: str, meaning: Meaning, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Asked:
    """An op or a formula whose results are integers or truth values."""

    def made() -> list[tuple[np.ndarray, np.ndarray]]:
        numbers = [each if is_whole(each) else each.astype(np.float64) for each in inputs]
        try:
            exact = meaning.evaluate([each.astype(np.int64) if _narrow(each) else each for each in numbers])
            if not all(np.isin(y, (0, 1)).all() or np.asarray(y).dtype.kind != "f" for y in exact):
                _ = [_as_floats(each) for each in inputs if is_whole(each)]  # which refuses what float64 rounds
            types = [outputs[min(number, len(outputs) - 1)].dtype for number in range(len(exact))]
            made = [whole_numbers.of_numbers(y, kind) for y, kind in zip(exact, types, strict=True)]
            return [_tied(meaning, numbers[0], *made[0], outputs[0])] if meaning.by in PLACES else made
        except NotWholeError:
            raise _no_formula(meaning.by, (*inputs, *outputs)) from None
        except (TypeError, ValueError, IndexError) as error:
            raise _unfit(meaning.by, inputs, error) from error

    return _stated(op_name, f"{meaning.by} in float64", outputs, made)


def _tied(
    meaning: Meaning, x: np.ndarray, right: np.ndarray, unstated: np.ndarray, came: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Places of values, of which any is right that has the value."""
    axis = meaning.given["axis"]
    rows = np.ravel(x)[None] if axis is None else np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    if came.shape != right.shape:
        return right, unstated
    there = np.clip(came.astype(np.int64), 0, rows.shape[1] - 1).reshape(-1)
    number = np.arange(len(rows))
    same = (rows[number, there] == rows[number, right.reshape(-1)]) & (there == came.reshape(-1))
    return np.where(same.reshape(right.shape), came, right), unstated


def _narrow(x: np.ndarray) -> bool:
    """Whether an array holds integers of less than 64 bits, whose sums would overflow."""
    return is_whole(x) and x.dtype.kind != "b" and x.dtype.itemsize < 8


def _conversion(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], target: Target) -> Asked:
    """A tensor in another element type."""
    if not outputs or not is_whole(outputs[0]):
        same = Meaning("convert", lambda operands: [operands[0]], lambda _: [], lambda _: ([], []), 0.0, alone=True)
        return _exact("stablehlo.convert", same, inputs, outputs, target)
    if inputs[0].dtype.kind == "c":
        raise _no_formula("convert", (*inputs, *outputs))
    return _stated(
        "stablehlo.convert", "convert", outputs, lambda: [whole_numbers.converted(inputs[0], outputs[0].dtype)]
    )


def _complex(op_name: str, meaning: Meaning, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Asked:
    """An elementwise op on complex numbers of 64 bits, computed in 128."""
    narrow = all(each.dtype != np.complex128 for each in outputs)
    if not narrow or op_name not in OF_COMPLEX:
        raise _no_formula(meaning.by, (*inputs, *outputs))

    def golden() -> list[np.ndarray]:
        wide = [each.astype(np.complex128 if each.dtype.kind == "c" else np.float64) for each in inputs]
        with np.errstate(all="ignore"):
            return [y.astype(kind.dtype) for y, kind in zip(meaning.evaluate(wide), outputs, strict=False)]

    return Asked(op_name, f"{meaning.by} in complex128", None, golden)


def _unfit(by: str, inputs: Sequence[np.ndarray], error: Exception) -> InputError:
    got = ", ".join(f"{each.dtype}{list(each.shape)}" for each in inputs)
    return InputError("inputs", f"operands and attributes of {by} that fit", f"{got}: {error}")


def _elementwise(op_name: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], target: Target) -> Asked:
    """A single elementwise op, whose steps the error model knows."""
    function = ELEMENTWISE.get(op_name) or CHOICES[op_name]
    wide = any(each.dtype == np.float64 for each in inputs) and op_name not in TO_THE_LAST_BIT

    def evaluate(operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        widest = [np.asarray(each, np.longdouble) for each in operands] if wide else operands
        made = np.asarray(function(*widest))
        return [made if made.dtype.kind == "c" else made.astype(np.float64)]

    meaning = Meaning(op_name.partition(".")[2], evaluate, lambda _: [], lambda _: ([], []), 0.0, alone=True)
    return _exact(op_name, meaning, inputs, outputs, target)


def _sum(
    row: Formula,
    given: Mapping[str, Any],
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    target: Target,
) -> Asked:
    """A sum of its operand's values along some dims, as a `reduce` is judged."""
    meaning = Meaning(
        "sum", lambda operands: [row.exact(*operands, **given)], lambda _: [], lambda _: ([], []), 0.0, False
    )
    return _exact("stablehlo.reduce", meaning, inputs, outputs, target, {"body": "stablehlo.add"})


def _product(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], target: Target) -> Asked:
    """A matrix product as NumPy has it: over the last dim of the first operand, batches by their leading dims."""
    if len(inputs) != 2 or min(each.ndim for each in inputs) < 2:
        got = ", ".join(str(list(each.shape)) for each in inputs)
        raise InputError("inputs", "two matrices, or batches of them", got)
    meaning = Meaning(
        "matmul", lambda operands: [operands[0] @ operands[1]], lambda _: [], lambda _: ([], []), 0.0, elementwise=False
    )
    last = inputs[0].ndim - 1
    numbers = f"#stablehlo.dot<lhs_contracting_dimensions = [{last}], rhs_contracting_dimensions = [{last - 1}]>"
    return _exact(PRODUCT, meaning, inputs, outputs, target, {"dot_dimension_numbers": numbers})


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
