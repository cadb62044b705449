"""How far the steps of an elementwise computation move its result: float64 arrays that remember what they were made by.

A result y whose steps v_1, v_2, ... are each off by a relative error u is off by at most u times the sum of
|v_i dy/dv_i|, to the first order (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). Where that sum is far
above |y|, terms cancel, and no step-by-step evaluation is better. Derivatives of a step are central differences of the
step itself, so any NumPy function of single elements will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from opscope.harness.formulas import special
from opscope.harness.formulas.otherwise import Steps

NUDGE = 2.0**-20
"""Relative step of a difference: in float64 it leaves ten digits of a derivative, of which one is needed."""
SLOPES: Mapping[Callable[..., Any], Callable[..., tuple[Any, ...]]] = {
    np.add: lambda y, a, b: (1.0, 1.0),
    np.subtract: lambda y, a, b: (1.0, -1.0),
    np.multiply: lambda y, a, b: (b, a),
    np.divide: lambda y, a, b: (1 / b, -y / b),
    np.negative: lambda y, a: (-1.0,),
    np.absolute: lambda y, a: (np.sign(a),),
    np.maximum: lambda y, a, b: (_picked(a, b), _picked(b, a)),
    np.minimum: lambda y, a, b: (_picked(b, a), _picked(a, b)),
    np.where: lambda y, picks, a, b: (0.0, np.where(picks, 1.0, 0.0), np.where(picks, 0.0, 1.0)),
    np.square: lambda y, a: (2 * a,),
    np.sqrt: lambda y, a: (0.5 / y,),
    np.exp: lambda y, a: (y,),
    np.log: lambda y, a: (1 / a,),
    np.log1p: lambda y, a: (1 / (1 + a),),
    np.tanh: lambda y, a: (1 - y * y,),
    special.sigmoid: lambda y, a: (y * special.sigmoid(-a),),
    special.erf: lambda y, a: (2 / math.sqrt(math.pi) * np.exp(-a * a),),
    special.erfc: lambda y, a: (-2 / math.sqrt(math.pi) * np.exp(-a * a),),
}
"""Functions whose derivatives by each operand need no differences: of the result and the operands."""


def _picked(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The derivative of the larger of two by the first."""
    return np.where(a > b, 1.0, np.where(a == b, 0.5, 0.0))


class NotElementwiseError(Exception):
    """A computation that does not make each element of its result from those at the same place."""


class Traced(NDArrayOperatorsMixin):
    """A float64 array, and the steps that made it."""

    def __init__(
        self,
        value: np.ndarray,
        made_by: Sequence[tuple[Traced, np.ndarray]] | None = None,
        way: Steps | None = None,
    ) -> None:
        self.value = value
        self.made_by = made_by
        """The operands of its step with the derivative by each; None: it is an operand of the whole."""
        self.way: Steps = way or {}
        """Functions that are made in several steps (`otherwise.WAYS`)."""
        self.other = any(each.other for each, _ in made_by or ())
        """Whether one was."""

    def take_step(self, function: Callable[..., Any], *operands: Any) -> Any:
        """One step that NumPy does not know (`special.one_step`)."""
        return step(function, *operands)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            raise NotElementwiseError(f"{ufunc.__name__}.{method}")
        return step(ufunc, *operands)

    def __array_function__(self, function: Callable[..., Any], _: Any, operands: Any, options: Any) -> Any:
        if function is not np.where or options or len(operands) != 3:
            raise NotElementwiseError(getattr(function, "__name__", str(function)))
        return step(np.where, *operands)

    def size(self) -> np.ndarray:
        """The sum over all steps of |v dy/dv|, this array being y."""
        return self.size_and_steepness()[0]

    def size_and_steepness(self) -> tuple[np.ndarray, np.ndarray]:
        """The size, and the sum over all steps of |dy/dv|: by how much y moves if each is off by 1, absolutely."""
        order: list[Traced] = []
        seen: set[int] = set()

        def visit(node: Traced) -> None:
            if id(node) not in seen:
                seen.add(id(node))
                for operand, _ in node.made_by or ():
                    visit(operand)
                order.append(node)

        visit(self)
        with np.errstate(all="ignore"):
            found = _followed(order, lambda x: x)
            if all(np.isfinite(each).all() for each in found):
                return found
            return _followed(order, _finite)  # what is no number counts as 0, at each step


def _followed(order: Sequence[Traced], counted: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Size and steepness of the last of some arrays, each of which is made of those before; `counted`: a step's share
    of either -> as it is counted."""
    last = order[-1]
    slopes: dict[int, np.ndarray] = {id(last): np.ones(())}
    size, steepness = np.zeros(last.value.shape), np.zeros(last.value.shape)
    for node in reversed(order):
        slope = slopes.pop(id(node))
        if node.made_by is None:
            continue
        steepness += counted(np.abs(slope))
        moved = node.value * slope
        size += counted(np.abs(moved, out=moved) if isinstance(moved, np.ndarray) else np.abs(moved))
        for operand, derivative in node.made_by:
            if operand.made_by is None:
                slopes[id(operand)] = slope  # which nobody asks for
                continue
            share = counted(slope * derivative)
            slopes[id(operand)] = slopes[id(operand)] + share if id(operand) in slopes else share
    return size, steepness


def step(function: Callable[..., Any], *operands: Any) -> Any:
    """One step of a computation on plain and traced arrays; its result is traced if it is a float."""
    others = [each for each in operands if hasattr(each, "take_step") and not isinstance(each, Traced)]
    if others:
        return others[0].take_step(function, *operands)
    traced = [each for each in operands if isinstance(each, Traced)]
    way = traced[0].way if traced else {}
    if function in way:
        made = way[function](*operands)
        made.other = True
        return made
    values = [each.value if isinstance(each, Traced) else each for each in operands]
    with np.errstate(all="ignore"):
        result = np.asarray(function(*values))
        if result.dtype.kind != "f" or not traced:
            return result
        made_by, slopes = [], SLOPES[function](result, *values) if function in SLOPES else ()
        for number, operand in enumerate(operands):
            if not isinstance(operand, Traced):
                continue
            if slopes:
                made_by.append((operand, slopes[number]))
                continue
            nudge = NUDGE * np.where(operand.value == 0, 1.0, np.abs(operand.value))
            above, below = ([*values], [*values])
            above[number], below[number] = operand.value + nudge, operand.value - nudge
            derivative = (function(*above) - function(*below)) / (above[number] - below[number])
            made_by.append((operand, derivative))
    return Traced(result.astype(np.float64), made_by, way)


def _finite(x: np.ndarray) -> np.ndarray:
    return x if np.isfinite(x).all() else np.where(np.isfinite(x), x, 0.0)
