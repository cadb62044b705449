"""A TensorFlow function, as the exporters of SavedModels, GraphDefs and registered models hand it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opscope.models.arguments import ArgSpec


@dataclass(frozen=True)
class TfBuilt:
    """A function of positional tensors, with everything that tracing it needs."""

    function: Callable[..., Any]
    arguments: tuple[ArgSpec, ...]
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Values of arguments that come from a file; the others are drawn from their distributions."""
    alive: Any = None
    """An object that must not be garbage collected while the function is traced: a loaded SavedModel."""
    notes: tuple[str, ...] = ()
    """What a user should know of what became of it, in lines."""

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(spec.size for spec in self.arguments if spec.role == "parameter")
