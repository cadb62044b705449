"""What Adam and LAMB share: running means of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from opscope.simulator.host.optimizers.optimizer import Optimizer, Shape, Trained, number

if TYPE_CHECKING:
    from jax import Array


class WithMoments(Optimizer):
    """An optimizer that keeps both means, and where it corrects their bias the powers of beta too."""

    state_names = ("mean", "variance", "beta1_pow", "beta2_pow")

    def __init__(
        self,
        learning_rate: float,
        betas: tuple[float, float],
        corrects: bool,
        parameters: Iterable[Trained] | None,
        device_params: bool,
    ) -> None:
        super().__init__(learning_rate, parameters, device_params)
        where = type(self).__name__
        self.beta1 = number(where, "beta1", betas[0], 0, 1)
        self.beta2 = number(where, "beta2", betas[1], 0, 1)
        self.corrects = corrects

    def get_optimizer_state_keys(self) -> list[str]:
        """The names of what it keeps for each parameter."""
        return list(self.state_names if self.corrects else self.state_names[:2])

    def start(self, shape: Shape) -> dict[str, np.ndarray]:
        """Returns means of zero, and powers of one."""
        names = self.get_optimizer_state_keys()
        means = {name: np.zeros(shape, np.float32) for name in names[:2]}
        return means | {name: np.ones((), np.float32) for name in names[2:]}

    def moments(self, gradient: Array, state: Mapping[str, Array]) -> tuple[Array, Array, dict[str, Array]]:
        """Returns both means, without the bias towards their start where it is corrected, and the next state."""
        mean = self.beta1 * state["mean"] + (1 - self.beta1) * gradient
        variance = self.beta2 * state["variance"] + (1 - self.beta2) * gradient * gradient
        kept = {"mean": mean, "variance": variance}
        if self.corrects:
            kept |= {"beta1_pow": state["beta1_pow"] * self.beta1, "beta2_pow": state["beta2_pow"] * self.beta2}
            mean, variance = mean / (1 - kept["beta1_pow"]), variance / (1 - kept["beta2_pow"])
        return mean, variance, kept
