"""What a row of the tables of formulas has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from opscope.harness.formulas.otherwise import WAYS
from opscope.harness.formulas.traced import NotElementwiseError, Traced

SMALLEST = 2.0**-126
"""The smallest normal float32: an intermediate below it may be zero."""


@dataclass(frozen=True)
class Formula:
    """What an op computes, on float64 arrays; all functions take the operands, then the attributes by name."""

    exact: Callable[..., Any]
    """The result, or several, by a form that is stable in float64."""
    size: Callable[..., Any] | None = None
    """The size of what the steps round, in each result's shape; None: as the steps of `body` have it."""
    operands: tuple[int, ...] = (1,)
    """How many operands it may have."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Attributes with their defaults. Lists are tuples of integers."""
    floor: Callable[..., Any] = lambda *x, **_: SMALLEST * (1 + sum(np.abs(each) for each in x))
    """How far the result may be off absolutely, where steps fall below the smallest normal number; of a formula without
    a size of its own the steps say it."""
    terms: Callable[..., int] = lambda *_, **__: 1
    """How many values are added up for one element of the result."""
    elementwise: bool = True
    elements: Callable[..., tuple[Any, ...]] = lambda *x, **_: x
    """The operands in the shape of its result, where it is of single elements."""
    products: bool = False
    """Whether it multiplies matrices."""
    adds: bool = False
    """Whether it does nothing but add its operand's values up."""
    chooses: bool = False
    """Whether each result is one of its operands' values, and nothing is rounded."""
    mistaken: Callable[..., Any] | None = None
    """What it is computed as by mistake, where its size hides the difference: a variance with 1 / (N - 1)."""
    grouped: Callable[..., np.ndarray] = lambda y, **_: y.reshape(-1, 1)
    """A result with a row for each group of values that has a variance of its own."""
    tail: str = ""
    """Where the size is far above the result."""
    body: Callable[..., Any] | None = None
    """The usual steps, each a function of NumPy or of `special`; None: the exact form has no other."""
    others: tuple[Callable[..., Any], ...] = ()
    """Other steps that are honest, and round elsewhere; besides those with functions written in several
    (`otherwise.WAYS`)."""
    other_sizes_of: tuple[Callable[..., Any], ...] = ()
    """The sizes of other honest steps of a formula that is not of single elements."""

    @property
    def steps(self) -> Callable[..., Any]:
        """The steps in which it is usually evaluated."""
        return self.body or self.exact

    @property
    def forms(self) -> tuple[Callable[..., Any], ...]:
        """All ways to write it that are known, of single elements."""
        return (self.exact, *([self.body] if self.body else []), *self.others) if self.elementwise else ()

    def sizes(self, *operands: np.ndarray, **given: Any) -> list[Any]:
        """The size of what the usual steps round, of each result: the table's, else what one rounding of each moves it
        by."""
        return self.sizes_and_floors(*operands, **given)[0]

    def sizes_and_floors(self, *operands: np.ndarray, **given: Any) -> tuple[list[Any], list[Any]]:
        """The same, and how far each result may be off absolutely."""
        if self.size is None:
            moves = moved(partial(self.steps, **given), operands)
            return [size for size, _ in moves], [SMALLEST * steepness for _, steepness in moves]
        size, floor = self.size(*operands, **given), self.floor(*operands, **given)
        return size if isinstance(size, list) else [size], floor if isinstance(floor, list) else [floor]

    def other_sizes(self, *operands: np.ndarray, **given: Any) -> Iterator[np.ndarray]:
        """The same of other steps that are honest, in the first result."""
        yield from (of(*operands, **given) for of in self.other_sizes_of)
        operands = self.elements(*operands, **given)
        for form in self.forms:
            for number, way in enumerate(({}, *WAYS)):
                try:
                    made = form(*(Traced(each, way=way) for each in operands), **given)
                except (NotElementwiseError, TypeError, AttributeError):
                    break
                if isinstance(made, Traced) and (made.other or (form in self.others and not number)):
                    yield made.size()


def moved(function: Callable[..., Any], operands: tuple[np.ndarray, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    """By how much one rounding of each step of a function moves each result, and by how much it moves where each step
    is off by 1; twice the size of a result whose steps are not of single elements."""
    try:
        made = function(*map(Traced, operands))
    except (NotElementwiseError, TypeError, AttributeError):
        made = function(*operands)
    return [
        each.size_and_steepness() if isinstance(each, Traced) else (_magnitude(each), _magnitude(each))
        for each in (made if isinstance(made, list | tuple) else [made])
    ]


def _magnitude(x: Any) -> np.ndarray:
    size = np.abs(np.asarray(x, np.float64))
    return np.where(np.isfinite(size), size, 0.0)
