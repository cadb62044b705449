"""A small module, an input of it, and what NumPy computes, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope import pybuda

X = np.random.default_rng(0).standard_normal((1, 1, 32, 64)).astype(np.float32)
WORMHOLE = pybuda.BackendDevice.Wormhole_B0


class Layer(pybuda.PyBudaModule):
    """tanh(x @ weights + bias)."""

    def __init__(self, name: str, size: int = 64) -> None:
        super().__init__(name)
        self.weights = pybuda.Parameter(size, 64)
        self.bias = pybuda.Parameter(64)

    def forward(self, act: Any) -> Any:
        product = pybuda.op.Matmul(f"{self.name}.product", act, self.weights, self.bias)
        return pybuda.op.Tanh(f"{self.name}.tanh", product)


def card(**options: Any) -> pybuda.TTDevice:
    """A card `a` with a module, unless `options` say otherwise."""
    return pybuda.TTDevice("a", **{"arch": WORMHOLE, "module": Layer("m"), **options})


def layer(weights: Any, bias: Any, x: np.ndarray = X) -> np.ndarray:
    return np.tanh(x @ weights.value() + bias.value())


def near(value: Any, expected: np.ndarray) -> bool:
    return bool(np.allclose(np.asarray(value), expected, atol=0.05))
