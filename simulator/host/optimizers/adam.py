"""Adam (Kingma and Ba 2015, algorithm 1) and AdamW (Loshchilov and Hutter 2019, algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from opscope.simulator.host.optimizers.moments import WithMoments
from opscope.simulator.host.optimizers.optimizer import Trained, number

if TYPE_CHECKING:
    from jax import Array


class Adam(WithMoments):
    """w - lr * m / (sqrt(v) + epsilon), with a decay of weights that is part of the gradient."""

    def __init__(
        self,
        learning_rate: float,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
        parameters: Iterable[Trained] | None = None,
        device_params: bool = False,
        enable_adam_w: bool = False,
    ) -> None:
        super().__init__(learning_rate, (beta1, beta2), bias_correction, parameters, device_params)
        where = type(self).__name__
        self.epsilon = number(where, "epsilon", epsilon, 0)
        self.weight_decay = number(where, "weight_decay", weight_decay, 0)
        self.enable_adam_w = enable_adam_w

    def rule(
        self, weight: Array, gradient: Array, state: Mapping[str, Array], learning_rate: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Returns the new weight and both means."""
        import jax.numpy as jnp

        if self.weight_decay and not self.enable_adam_w:
            gradient = gradient + self.weight_decay * weight
        mean, variance, kept = self.moments(gradient, state)
        step = mean / (jnp.sqrt(variance) + self.epsilon)
        if self.weight_decay and self.enable_adam_w:
            step = step + self.weight_decay * weight
        return weight - learning_rate * step, kept


class AdamW(Adam):
    """Adam whose decay of weights is part of the step, not of the gradient."""

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        bias_correction: bool = True,
        parameters: Iterable[Trained] | None = None,
        device_params: bool = False,
    ) -> None:
        super().__init__(
            learning_rate, beta1, beta2, eps, weight_decay, bias_correction, parameters, device_params, True
        )
