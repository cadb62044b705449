"""An elementwise computation each of whose steps is rounded to a narrow type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from opscope.harness.formulas.nearest import last_place, rounded
from opscope.harness.formulas.traced import NotElementwiseError

DIRECTIONS: Sequence[Callable[[int], int]] = (
    lambda step: 0,
    lambda step: 1,
    lambda step: -1,
    lambda step: 1 if step % 2 else -1,
    lambda step: -1 if step % 2 else 1,
)
"""Where steps are rounded: to the nearest number, up, down, or up and down in turns, as kernels are that may be a unit
off."""


def evaluations(function: Callable[..., Any], operands: Sequence[np.ndarray], dtype: np.dtype) -> Iterator[np.ndarray]:
    """The result of a function of float64 arrays, in float64, with its steps rounded to `dtype` in each of DIRECTIONS.

    Raises NotElementwiseError where its steps are not of single elements.
    """
    for direction in DIRECTIONS:
        steps = _Steps(dtype, direction)
        result = function(*(_Rounded(each, steps) for each in operands))
        yield np.asarray(result.value if isinstance(result, _Rounded) else result, np.float64)


class _Steps:
    """The steps of one evaluation."""

    def __init__(self, dtype: np.dtype, direction: Callable[[int], int]) -> None:
        self._number, self._dtype, self._direction = 0, dtype, direction

    def take(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """The result of one step, rounded."""
        values = [each.value if isinstance(each, _Rounded) else each for each in operands]
        with np.errstate(all="ignore"):
            result = np.asarray(function(*values))
            if result.dtype.kind != "f":
                return result
            near = rounded(result, self._dtype).astype(np.float64)
            if direction := self._direction(self._number):
                past = (near - result) * direction < 0
                near = np.where(past, near + direction * last_place(result, self._dtype), near)
        self._number += 1
        return _Rounded(near, self)


class _Rounded(NDArrayOperatorsMixin):
    """A value of such an evaluation."""

    def __init__(self, value: np.ndarray, steps: _Steps) -> None:
        self.value, self.steps = value, steps

    def take_step(self, function: Callable[..., Any], *operands: Any) -> Any:
        """One step that NumPy does not know (`special.one_step`)."""
        return self.steps.take(function, operands)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            raise NotElementwiseError(f"{ufunc.__name__}.{method}")
        return self.steps.take(ufunc, operands)

    def __array_function__(self, function: Callable[..., Any], _: Any, operands: Any, options: Any) -> Any:
        if function is not np.where or options or len(operands) != 3:
            raise NotElementwiseError(getattr(function, "__name__", str(function)))
        return self.steps.take(np.where, operands)
