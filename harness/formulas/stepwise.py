"""A computation each of whose steps is rounded to a narrow type: of single elements, or one that adds values up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from opscope.harness.formulas import special
from opscope.harness.formulas.nearest import last_place, precision, rounded
from opscope.harness.formulas.traced import NotElementwiseError

Direction = Callable[[int, np.ndarray], Any]
"""Number and exact result of a step -> where it is rounded: 1 up, -1 down, 0 to the nearest number."""


def _by_bit(bit: int, sign: int) -> Direction:
    return lambda step, _: sign if step >> bit & 1 else -sign


DIRECTIONS: Sequence[Direction] = (
    lambda step, y: 0,
    lambda step, y: 1,
    lambda step, y: -1,
    lambda step, y: np.sign(y),
    lambda step, y: -np.sign(y),
    *(_by_bit(bit, sign) for bit in (0, 1, 2) for sign in (1, -1)),
)
"""How kernels round that may be a unit off: to the nearest number, up, down, away from zero, toward it; up where a bit
of the step's number is set and down elsewhere, so that any two of eight steps part in one."""
MOVES = frozenset({np.concatenate, np.split, np.swapaxes, np.reshape})
"""Functions that only move values: no step of an evaluation."""
SEVERAL: dict[Callable[..., Any], Callable[..., Any]] = {special.sigmoid: lambda x: 1 / (1 + np.exp(-x))}
"""Functions of one step that compilers write in several."""


def evaluations(
    function: Callable[..., Any], operands: Sequence[np.ndarray], dtype: np.dtype, flushes: bool = False
) -> Iterator[list[np.ndarray]]:
    """The results of a function of float64 arrays, in float64, with its steps rounded to `dtype` in each of DIRECTIONS.
    A sum is one step: it is added up in a wider type. `flushes`: denormals become zero.

    Raises NotElementwiseError where a step is a function that is not known here.
    """
    for direction in DIRECTIONS:
        steps = _Steps(dtype, direction, flushes)
        made = function(*(_Rounded(each, steps) for each in operands))
        several = made if isinstance(made, list | tuple) else [made]
        yield [np.asarray(each.value if isinstance(each, _Rounded) else each, np.float64) for each in several]


class _Steps:
    """The steps of one evaluation."""

    def __init__(self, dtype: np.dtype, direction: Direction, flushes: bool) -> None:
        self._number, self._dtype, self._direction = 0, dtype, direction
        self._least = 2.0 ** precision(dtype)[1] if flushes else 0.0

    def take(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """The result of one step, rounded."""
        values = [each.value if isinstance(each, _Rounded) else each for each in operands]
        with np.errstate(all="ignore"):
            result = np.asarray(function(*values))
            if result.dtype.kind != "f":
                return result
            near = rounded(result, self._dtype).astype(np.float64)
            direction = self._direction(self._number, result)
            past = (near - result) * direction < 0
            near = np.where(past, near + direction * last_place(result, self._dtype), near)
            near = np.where(np.abs(near) < self._least, 0.0, near)
        self._number += 1
        return _Rounded(near, self)


class _Rounded(NDArrayOperatorsMixin):
    """A value of such an evaluation."""

    def __init__(self, value: np.ndarray, steps: _Steps) -> None:
        self.value, self.steps = value, steps

    def take_step(self, function: Callable[..., Any], *operands: Any) -> Any:
        """One step that NumPy does not know (`special.one_step`)."""
        return SEVERAL[function](*operands) if function in SEVERAL else self.steps.take(function, operands)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            raise NotElementwiseError(f"{ufunc.__name__}.{method}")
        return self.steps.take(ufunc, operands)

    def __array_function__(self, function: Callable[..., Any], _: Any, operands: Any, options: Any) -> Any:
        if function in MOVES:
            return self._moved(function(*_plain(operands), **options))
        if function is not np.where or options or len(operands) != 3:
            raise NotElementwiseError(getattr(function, "__name__", str(function)))
        return self.steps.take(np.where, operands)

    def _moved(self, made: Any) -> Any:
        return [_Rounded(each, self.steps) for each in made] if isinstance(made, list) else _Rounded(made, self.steps)

    def __getitem__(self, places: Any) -> _Rounded:
        return _Rounded(self.value[places], self.steps)

    def reshape(self, *shape: Any) -> _Rounded:
        """The values in another shape."""
        return _Rounded(self.value.reshape(*shape), self.steps)

    def max(self, **along: Any) -> _Rounded:
        """The largest values along a dim."""
        return _Rounded(self.value.max(**along), self.steps)

    def sum(self, **along: Any) -> _Rounded:
        """The sums along a dim."""
        return self.steps.take(lambda x: x.sum(**along), [self])

    def mean(self, **along: Any) -> _Rounded:
        """The means along a dim: a sum, then a quotient."""
        total = self.sum(**along)
        return total / (self.value.size / max(1, total.value.size))

    def var(self, *, axis: Any = None) -> _Rounded:
        """The variances along a dim, of values less their mean."""
        centred = self - self.mean(axis=axis, keepdims=True)
        return (centred * centred).mean(axis=axis)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self.value.ndim

    @property
    def size(self) -> int:
        """The number of values."""
        return self.value.size


def _plain(operands: Any) -> Any:
    """Operands of a function that moves values, as plain arrays."""
    if isinstance(operands, list | tuple):
        return type(operands)(map(_plain, operands))
    return operands.value if isinstance(operands, _Rounded) else operands
