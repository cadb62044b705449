"""The parts of a model: the specs of its arguments, and the function that takes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ROLES = ("parameter", "state", "input")

GENERATOR = 2
"""Version of what draws values (`seeding.py`). It rises when a distribution, a seed and an index give other values than
before: goldens that were computed on those belong to them alone."""


@dataclass(frozen=True)
class ArgSpec:
    """One argument of a model: its shape, its type, and the distribution that its value is drawn from."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """NumPy's name of the element type: `float32`, `bfloat16`, `int32`, ..."""
    law: str
    """The distribution of its values, such as `normal:0.02` (`opscope.models.seeding` lists them)."""
    role: str = "parameter"
    """`parameter` (counted in the published size), `state` (batch-norm running statistics), `input`."""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"ArgSpec {self.name}: expected role {' | '.join(ROLES)}, got {self.role!r}")

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Built:
    """A model ready to be exported: `forward` takes one mapping, argument name -> array."""

    forward: Callable[[Mapping[str, Any]], Any]
    arguments: tuple[ArgSpec, ...]
    """In the order in which the exported function takes them; the index seeds the draw."""
    loss: Callable[[Any], Any] | None = None
    """The loss for `--training`: turns the results of `forward` into a scalar. None stands for the mean square of the
    first floating result."""
    ops: tuple[str, ...] = ()
    """Ops that the program is to hold, whatever release of its framework writes it: a run says which are not there."""

    def __post_init__(self) -> None:
        names = [spec.name for spec in self.arguments]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise ValueError(f"Built: expected unique argument names, got twice {', '.join(double)}")

    @property
    def parameters(self) -> int:
        """Number of weights as publications count them."""
        return sum(spec.size for spec in self.arguments if spec.role == "parameter")
