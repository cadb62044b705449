"""A computation each of whose steps is rounded to a narrow type: of single elements, or one that adds values up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from opscope.harness.formulas import special
from opscope.harness.formulas.nearest import last_place, precision, rounded
from opscope.harness.formulas.otherwise import WAYS, Steps
from opscope.harness.formulas.traced import NotElementwiseError

Rounding = Callable[[int, Callable[..., Any], np.ndarray, np.dtype], np.ndarray]
"""Number, function and exact result of a step, and the type -> what the step gives, float64."""
Direction = Callable[[int, np.ndarray], Any]
"""Number and exact result of a step -> where it is rounded: 1 up, -1 down, 0 to the nearest number."""
EXACT = frozenset(
    (np.absolute, np.add, np.ceil, np.divide, np.floor, np.maximum, np.minimum, np.multiply, np.negative, np.rint)
) | {np.sqrt, np.square, np.subtract, np.trunc, np.where}
"""What IEEE 754 leaves one result."""
ONE_STEP = frozenset((np.cos, np.exp, np.log, np.log1p, np.sin, np.tanh, special.erf, special.erfc, special.sigmoid))
"""Functions that hosts compute in float32 or wider."""
IN_STEPS = frozenset((np.arccos, np.arccosh, np.arcsin, np.arcsinh, np.arctanh, np.cosh, np.expm1, np.sinh)) | {
    np.power,
    np.tan,
}
"""Functions that they make of several steps, each perhaps of 16 bits: XLA arcsines, IREE a tangent of f16."""
LIBRARY = 1e-5
"""Most that a host's function of float32 may be off, relative, as the table of tolerances has it."""


def _near(exact: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return rounded(exact, dtype).astype(np.float64)


def _by_kernel(direction: Direction) -> Rounding:
    """A kernel's step, which may be a unit off: the next number in a direction."""

    def of(step: int, _: Callable[..., Any], exact: np.ndarray, dtype: np.dtype) -> np.ndarray:
        near, to = _near(exact, dtype), direction(step, exact)
        return np.where((near - exact) * to < 0, near + to * last_place(exact, dtype), near)

    return of


def _by_host(to: int) -> Rounding:
    """A host's step: the number nearest to what its library computes, which may be off that way."""

    def of(step: int, function: Callable[..., Any], exact: np.ndarray, dtype: np.dtype) -> np.ndarray:
        if function in EXACT | ONE_STEP:
            return _near(exact if function in EXACT else exact * (1 + to * LIBRARY), dtype)
        last = _by_kernel(lambda *_: to)(step, function, exact, dtype)
        return last + to * last_place(exact, dtype) if function in IN_STEPS else last

    return of


def _unrounded(bit: int, where: int) -> Rounding:
    """A host's step: as it is where a bit of its number is so, since a compiler leaves out roundings between steps that
    it makes one loop of; else the nearest number."""
    return lambda step, _, exact, dtype: exact if step >> bit & 1 == where else _near(exact, dtype)


def _by_bit(bit: int, sign: int) -> Direction:
    return lambda step, _: sign if step >> bit & 1 else -sign


class Way(NamedTuple):
    """How the steps of one evaluation are rounded."""

    rounding: Rounding
    several: bool = True
    """Whether functions of `otherwise.WAYS` are made in several steps."""
    constants: bool = False
    """Whether numbers of the formula are rounded too, as in a body all of whose values are of the type."""


BY_KERNELS = [
    Way(_by_kernel(direction))
    for direction in (
        lambda step, y: 0,
        lambda step, y: 1,
        lambda step, y: -1,
        lambda step, y: np.sign(y),
        lambda step, y: -np.sign(y),
        *(_by_bit(bit, sign) for bit in (0, 1, 2) for sign in (1, -1)),
    )
]
"""How kernels round that may be a unit off: to the nearest number, up, down, away from zero, toward it; up where a bit
of the step's number is set and down elsewhere, so that any two of eight steps part in one."""
BY_HOST = [
    Way(_by_host(0)),
    Way(_by_host(0), constants=True),
    *(Way(_by_host(to), several=False) for to in (0, 1, -1)),
    *(Way(_unrounded(bit, where)) for bit in (0, 1, 2) for where in (0, 1)),
    Way(lambda step, function, exact, dtype: exact, constants=True),
]
"""How a host rounds, which adds and multiplies as IEEE 754 says: to the nearest number, of functions as its library has
them, or not at all."""
NEAREST = [BY_HOST[0], BY_HOST[1]]
"""Each step the nearest number; numbers of the formula as they are, or rounded too."""
MOVES = frozenset({np.concatenate, np.split, np.swapaxes, np.reshape})
"""Functions that only move values: no step of an evaluation."""


def evaluations(
    function: Callable[..., Any],
    operands: Sequence[np.ndarray],
    dtype: np.dtype,
    ways: Sequence[Way],
    flushes: bool = False,
    otherwise: Sequence[Steps] = WAYS[:1],
) -> Iterator[list[np.ndarray]]:
    """The results of a function of float64 arrays, in float64, with its steps rounded to `dtype` in each of some ways.
    A sum is one step: it is added up in a wider type. `flushes`: denormals become zero. `otherwise`: how functions are
    made in several steps, each in turn.

    Raises NotElementwiseError where a step is a function that is not known here.
    """
    for number, several in enumerate(otherwise):
        for way in ways:
            if number and not way.several:
                continue
            steps = Evaluation(dtype, way, flushes, several if way.several else {})
            made = function(*(Rounded(each, steps) for each in operands))
            if number and not steps.others:
                break  # as it was before
            results = made if isinstance(made, list | tuple) else [made]
            yield [np.asarray(each.value if isinstance(each, Rounded) else each, np.float64) for each in results]


class Evaluation:
    """The steps of one evaluation."""

    def __init__(self, dtype: np.dtype, way: Way, flushes: bool, several: Steps) -> None:
        self._number, self.dtype, self.way, self._several = 0, dtype, way, several
        self.others = 0
        """How many functions were made in several steps."""
        self.least = 2.0 ** precision(dtype)[1] if flushes else 0.0

    def take(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """The result of one step, rounded; of a function that is made in several, of these."""
        if function in self._several:
            self.others += 1
            return self._several[function](*operands)
        with np.errstate(all="ignore"):
            result = np.asarray(function(*map(self._value, operands)))
            if result.dtype.kind != "f":
                return result
            near = self.rounded(function, result)
            near = np.where(np.abs(near) < self.least, 0.0, near)
        return Rounded(near, self)

    def rounded(self, function: Callable[..., Any], exact: np.ndarray) -> np.ndarray:
        """What the next step gives, by its function and exact result, before denormals become zero."""
        self._number += 1
        return self.way.rounding(self._number - 1, function, exact, self.dtype)

    def _value(self, operand: Any) -> Any:
        if isinstance(operand, Rounded):
            return operand.value
        fixed = self.way.constants and np.asarray(operand).dtype.kind == "f"
        return _near(np.asarray(operand), self.dtype) if fixed else operand


class Rounded(NDArrayOperatorsMixin):
    """A value of such an evaluation."""

    def __init__(self, value: np.ndarray, steps: Evaluation) -> None:
        self.value, self.steps = value, steps

    def take_step(self, function: Callable[..., Any], *operands: Any) -> Any:
        """One step that NumPy does not know (`special.one_step`)."""
        return self.steps.take(function, operands)

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
        return [Rounded(each, self.steps) for each in made] if isinstance(made, list) else Rounded(made, self.steps)

    def __getitem__(self, places: Any) -> Rounded:
        return Rounded(self.value[places], self.steps)

    def reshape(self, *shape: Any) -> Rounded:
        """The values in another shape."""
        return Rounded(self.value.reshape(*shape), self.steps)

    def max(self, **along: Any) -> Rounded:
        """The largest values along a dim."""
        return Rounded(self.value.max(**along), self.steps)

    def sum(self, **along: Any) -> Rounded:
        """The sums along a dim."""
        return self.steps.take(lambda x: x.sum(**along), [self])

    def mean(self, **along: Any) -> Rounded:
        """The means along a dim: a sum, then a quotient."""
        total = self.sum(**along)
        return total / (self.value.size / max(1, total.value.size))

    def var(self, *, axis: Any = None, ddof: int = 0) -> Rounded:
        """The variances along a dim, of values less their mean."""
        centred = self - self.mean(axis=axis, keepdims=True)
        total = (centred * centred).sum(axis=axis)
        return total / (self.value.size / max(1, total.value.size) - ddof)

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
    return operands.value if isinstance(operands, Rounded) else operands
