"""The input of the ONNX exporter: a graph whose inputs are the model's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opscope.models.arguments import ArgSpec

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto


@dataclass(frozen=True)
class OnnxBuilt:
    """An ONNX model whose graph inputs are `arguments`, in that order."""

    proto: ModelProto
    arguments: tuple[ArgSpec, ...]
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Values of arguments that come from a file; the others are drawn from their distributions."""

    bound: tuple[str, ...] = ()
    """Inputs of the file that the user's values made constants."""

    @property
    def parameters(self) -> int:
        """Number of weights as publications count them."""
        return sum(spec.size for spec in self.arguments if spec.role == "parameter")
