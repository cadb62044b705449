"""LAMB: Adam whose step is scaled layer by layer (You et al. 2020, algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.optimizers.moments import WithMoments
from opscope.simulator.host.optimizers.optimizer import Trained, number

if TYPE_CHECKING:
    from jax import Array


class LAMB(WithMoments):
    """w - lr * clip(|w| / |r|) * r, where r is Adam's step with the decay of weights added.

    TT-Buda takes `correction` and does not apply it; here it corrects the bias of both means as the paper does.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        correction: bool = False,
        clip_value: tuple[float, float] = (0.0, 10.0),
        parameters: Iterable[Trained] | None = None,
        device_params: bool = False,
    ) -> None:
        super().__init__(learning_rate, (beta1, beta2), correction, parameters, device_params)
        self.eps = number("LAMB", "eps", eps, 0)
        self.weight_decay = number("LAMB", "weight_decay", weight_decay, 0)
        if not isinstance(clip_value, tuple | list) or len(clip_value) != 2:
            raise PyBudaError(f"LAMB.clip_value: expected (least, largest), got {clip_value!r}")
        low, high = clip_value
        low = number("LAMB", "clip_value", low, 0)
        self.clip_value = low, number("LAMB", "clip_value", high, low)

    def rule(
        self, weight: Array, gradient: Array, state: Mapping[str, Array], learning_rate: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Returns the new weight and both means. A ratio with a norm of zero is one."""
        import jax.numpy as jnp

        mean, variance, kept = self.moments(gradient, state)
        step = mean / (jnp.sqrt(variance) + self.eps) + self.weight_decay * weight
        ratio = ratio_of_norms(norm(weight), norm(step))
        return weight - learning_rate * jnp.clip(ratio, *self.clip_value) * step, kept


def norm(values: Array) -> Array:
    """Returns the root of the sum of squares over all elements."""
    import jax.numpy as jnp

    return jnp.sqrt(jnp.sum(values * values))


def ratio_of_norms(above: Array, below: Array) -> Array:
    """Returns above / below, or one where either is zero."""
    import jax.numpy as jnp

    none = (above == 0) | (below == 0)
    return jnp.where(none, 1.0, above / jnp.where(none, 1.0, below))
