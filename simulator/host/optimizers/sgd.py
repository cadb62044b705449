"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from opscope.simulator.host.optimizers.optimizer import Optimizer, Trained

if TYPE_CHECKING:
    from jax import Array


class SGD(Optimizer):
    """w - lr * g."""

    def __init__(
        self, learning_rate: float, parameters: Iterable[Trained] | None = None, device_params: bool = False
    ) -> None:
        super().__init__(learning_rate, parameters, device_params)

    def rule(
        self, weight: Array, gradient: Array, state: Mapping[str, Array], learning_rate: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Returns the new weight; nothing is kept."""
        return weight - learning_rate * gradient, {}
