"""An elementwise op by its name, as a module that a backend compiles and as an exact function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from opscope.base.op_families import TO_THE_LAST_BIT
from opscope.harness.formulas import attributes
from opscope.harness.formulas.elementwise import ALIASES, CHOICES, full_name
from opscope.harness.formulas.elementwise import FORMULAS as ELEMENTWISE
from opscope.harness.formulas.pointwise import POINTWISE
from opscope.harness.formulas.stablehlo_body import composite, single_op
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.record.errors import InputError, closest

OPERANDS = {"stablehlo.clamp": 3, "stablehlo.remainder": 2, "stablehlo.select": 0}
"""Operands of ops whose function does not say it; 0: not all of them are numbers."""
NO_STEPS = frozenset({"trigamma", "i0", "i1"})
"""Formulas that StableHLO has no steps for."""
GROUPS = {"unary": (1,), "binary": (2,), "ternary": (3,), "all": (1, 2, 3)}
"""Name of a group -> how many operands its ops have."""


@dataclass(frozen=True)
class SweptOp:
    """An op that is swept."""

    name: str
    """As the user and the records call it: `tanh`, `gelu`, `elu(alpha=2.0)`."""
    op_name: str
    """Its full name in StableHLO; empty of a formula, which is a composite."""
    operands: int
    given: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def _exact(self) -> Any:
        if self.op_name:
            return ELEMENTWISE.get(self.op_name) or CHOICES[self.op_name]
        formula = POINTWISE[self.name.partition("(")[0]]
        return lambda *x: formula.exact(*x, **dict(self.given))

    def exact(self, inputs: Sequence[np.ndarray]) -> np.ndarray:
        """The results in float64; of float64 in the machine's widest type, then rounded."""
        wide = inputs[0].dtype == np.float64 and self.op_name not in TO_THE_LAST_BIT
        with np.errstate(all="ignore"):
            operands = [x.astype(np.longdouble if wide else np.float64) for x in inputs]
            return np.asarray(self._exact(*operands)).astype(np.float64)

    def module(self, shape: Sequence[int], element_type: str) -> bytes:
        """A module of the one op, on operands of a shape and an MLIR element type."""
        whole = (*shape, element_type)
        if self.op_name:
            return single_op(self.op_name, whole, self.operands).encode()
        formula = self.name.partition("(")[0]
        return composite(formula, POINTWISE[formula].steps, dict(self.given), whole, self.operands).encode()


def named(text: str) -> SweptOp:
    """The op of a name. Raises InputError."""
    full = full_name(text.strip())
    if full in ELEMENTWISE or full in CHOICES:
        function = ELEMENTWISE.get(full) or CHOICES[full]
        count = OPERANDS.get(full, function.nin if isinstance(function, np.ufunc) else 1)
        if count:
            return SweptOp(full.partition(".")[2], full, count)
    name = text.partition("(")[0].strip()
    if name in POINTWISE and name not in NO_STEPS:
        try:
            _, formula, given = attributes.named(text)
        except attributes.UnknownFormulaError as error:
            raise InputError("OP", "an elementwise op with its attributes", str(error)) from None
        return SweptOp(text.strip(), "", formula.operands[0], tuple(given.items()))
    known = [op.name for op in every(GROUPS["all"])]
    expected = f"an elementwise op, a formula of single elements, or {', '.join(GROUPS)}"
    raise InputError("OP", expected, repr(text), closest(name, [*known, *ALIASES], 6) or "opscope ulp --list")


def every(operands: Sequence[int]) -> list[SweptOp]:
    """All ops of so many operands."""
    single = [name for name in (*ELEMENTWISE, *CHOICES) if OPERANDS.get(name, 1)]
    ops = [named(name) for name in single] + [named(name) for name in POINTWISE if name not in NO_STEPS]
    return [op for op in {op.name: op for op in reversed(ops)}.values() if op.operands in operands][::-1]


def element_dtype(element_type: str) -> np.dtype:
    """The NumPy type of an MLIR float type of at most 64 bits. Raises InputError."""
    dtype = numpy_dtype(element_type) if element_type in TYPES else None
    if dtype is None:
        raise InputError("--dtype", f"one of {', '.join(TYPES)}", repr(element_type), closest(element_type, TYPES))
    return dtype


TYPES = ("bf16", "f16", "f32", "f64", "f8E4M3FN", "f8E5M2")
"""Element types that are swept."""
