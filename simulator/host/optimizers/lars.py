"""LARS: gradient descent with momentum whose rate is scaled layer by layer (You et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from opscope.simulator.host.optimizers.lamb import norm, ratio_of_norms
from opscope.simulator.host.optimizers.optimizer import Optimizer, Trained, number

if TYPE_CHECKING:
    from jax import Array


class LARS(Optimizer):
    """v = momentum * v + lr * local * (g + decay * w), local = coeff * |w| / (|g| + decay * |w| + epsilon); w - v.

    TT-Buda takes `nesterov` and `dampening` and applies neither; here they mean what they mean for PyTorch's SGD.
    """

    state_names = ("momentum",)

    def __init__(
        self,
        learning_rate: float = 0.001,
        momentum: float = 0.9,
        nesterov: bool = False,
        dampening: float = 0.0,
        weight_decay: float = 0.01,
        lars_coeff: float = 0.001,
        parameters: Iterable[Trained] | None = None,
        device_params: bool = False,
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, parameters, device_params)
        self.momentum = number("LARS", "momentum", momentum, 0, 1)
        self.nesterov = nesterov
        self.dampening = number("LARS", "dampening", dampening, 0, 1)
        self.weight_decay = number("LARS", "weight_decay", weight_decay, 0)
        self.lars_coeff = number("LARS", "lars_coeff", lars_coeff, 0, 1)
        self.epsilon = number("LARS", "epsilon", epsilon, 0)

    def rule(
        self, weight: Array, gradient: Array, state: Mapping[str, Array], learning_rate: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Returns the new weight and the new momentum. A local rate with a norm of zero is one."""
        import jax.numpy as jnp

        size, slope = norm(weight), norm(gradient)
        none = (size == 0) | (slope == 0)
        local = ratio_of_norms(size, slope + self.weight_decay * size + self.epsilon)
        local = jnp.where(none, 1.0, self.lars_coeff * local)
        step = learning_rate * local * (gradient + self.weight_decay * weight)
        velocity = self.momentum * state["momentum"] + (1 - self.dampening) * step
        moved = step + self.momentum * velocity if self.nesterov else velocity
        return weight - moved, {"momentum": velocity}
