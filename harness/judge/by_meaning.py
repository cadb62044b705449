"""An op by what it computes in exact arithmetic, on floats and complex numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from opscope.base.op_families import TO_THE_LAST_BIT
from opscope.harness.formulas import whole_numbers
from opscope.harness.formulas.elementwise import CHOICES
from opscope.harness.formulas.elementwise import FORMULAS as ELEMENTWISE
from opscope.harness.formulas.formula import Formula
from opscope.harness.formulas.whole_numbers import is_whole
from opscope.harness.judge.by_integers import as_floats, whole
from opscope.harness.judge.known_op import Asked, no_formula, stated, unfit
from opscope.harness.record.errors import InputError
from opscope.harness.verdict.meaning import ExactOperands, Meaning, decides
from opscope.harness.verdict.operands import Operands
from opscope.harness.verdict.target import Target

PRODUCT = "stablehlo.dot_general"
OF_COMPLEX = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("abs", "add", "cosine", "divide", "exponential", "exponential_minus_one", "log", "log_plus_one", "multiply"),
        *("negate", "power", "rsqrt", "sine", "sqrt", "subtract", "tan", "tanh"),
    )
)
"""Elementwise ops that StableHLO has for complex numbers, and NumPy too."""


def by_meaning(
    op_name: str,
    meaning: Meaning,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    target: Target,
    params: dict[str, str] | None = None,
) -> Asked:
    """An op by its meaning."""
    if outputs and all(map(is_whole, outputs)):
        return whole(op_name, meaning, inputs, outputs)
    inputs = [as_floats(each) if is_whole(each) else each for each in inputs]
    if any(each.dtype.kind == "c" for each in (*inputs, *outputs)):
        return of_complex(op_name, meaning, inputs, outputs)
    types = tuple(each.dtype for each in outputs)
    body = (params or {}).get("body")
    operands = ExactOperands(op_name, b"", partial(list, inputs), body, meaning=meaning, types=types, target=target)

    def golden() -> list[np.ndarray]:
        try:
            last = len(types) - 1  # of another number of results the verdict says so
            operands.types = tuple(types[min(number, last)] for number in range(len(operands.exact)))
            return operands.golden
        except (ValueError, TypeError, IndexError) as error:
            raise unfit(meaning.by, inputs, error) from error

    by = f"{meaning.by} in float64"
    if meaning.roundings and not decides(meaning, target, outputs):
        return Asked(op_name, by, None, golden, params or {})
    return Asked(op_name, by, operands, golden, params or {})


def of_complex(op_name: str, meaning: Meaning, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Asked:
    """An elementwise op on complex numbers of 64 bits, computed in 128."""
    narrow = all(each.dtype != np.complex128 for each in outputs)
    if not narrow or op_name not in OF_COMPLEX:
        raise no_formula(meaning.by, (*inputs, *outputs))

    def run(operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        wide = [each.astype(np.complex128 if each.dtype.kind == "c" else np.float64) for each in operands]
        with np.errstate(all="ignore"):
            return [y.astype(kind.dtype) for y, kind in zip(meaning.evaluate(wide), outputs, strict=False)]

    operands = ComplexOperands(op_name, b"", partial(list, inputs), function=run)
    return Asked(op_name, f"{meaning.by} in complex128", operands, partial(run, inputs))


@dataclass
class ComplexOperands(Operands):
    """The operands of an elementwise op on complex numbers, evaluated by NumPy: either part of a product may cancel."""

    function: Callable[[Sequence[np.ndarray]], list[np.ndarray]] = lambda _: []

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The op on other inputs, computed in 128 bits and rounded once."""
        return self.function(inputs)

    def run_with_denormals(self) -> list[np.ndarray]:
        """The op on its own inputs: 128 bits have room for denormals."""
        return self.function(self.inputs)


def conversion(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], target: Target) -> Asked:
    """A tensor in another element type."""
    if not outputs or not is_whole(outputs[0]):
        same = Meaning("convert", lambda operands: [operands[0]], lambda _: [], lambda _: ([], []), 0.0, alone=True)
        return by_meaning("stablehlo.convert", same, inputs, outputs, target)
    if inputs[0].dtype.kind == "c":
        raise no_formula("convert", (*inputs, *outputs))
    return stated(
        "stablehlo.convert", "convert", outputs, lambda: [whole_numbers.converted(inputs[0], outputs[0].dtype)]
    )


def elementwise(op_name: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], target: Target) -> Asked:
    """A single elementwise op, whose steps the error model knows."""
    function = ELEMENTWISE.get(op_name) or CHOICES[op_name]
    wide = any(each.dtype == np.float64 for each in inputs) and op_name not in TO_THE_LAST_BIT

    def evaluate(operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        widest = [np.asarray(each, np.longdouble) for each in operands] if wide else operands
        made = np.asarray(function(*widest))
        return [made if made.dtype.kind == "c" else made.astype(np.float64)]

    meaning = Meaning(op_name.partition(".")[2], evaluate, lambda _: [], lambda _: ([], []), 0.0, alone=True)
    return by_meaning(op_name, meaning, inputs, outputs, target)


def total(
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
    return by_meaning("stablehlo.reduce", meaning, inputs, outputs, target, {"body": "stablehlo.add"})


def product(inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], target: Target) -> Asked:
    """A matrix product as NumPy has it: over the last dim of the first operand, batches by their leading dims."""
    if len(inputs) != 2 or min(each.ndim for each in inputs) < 2:
        got = ", ".join(str(list(each.shape)) for each in inputs)
        raise InputError("inputs", "two matrices, or batches of them", got)
    meaning = Meaning(
        "matmul", lambda operands: [operands[0] @ operands[1]], lambda _: [], lambda _: ([], []), 0.0, elementwise=False
    )
    last = inputs[0].ndim - 1
    numbers = f"#stablehlo.dot<lhs_contracting_dimensions = [{last}], rhs_contracting_dimensions = [{last - 1}]>"
    return by_meaning(PRODUCT, meaning, inputs, outputs, target, {"dot_dimension_numbers": numbers})
