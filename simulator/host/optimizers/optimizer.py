"""What every optimizer has: hyperparameters that are checked, the parameters it trains, and its rule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from opscope.simulator.host.argument_checks import listed
from opscope.simulator.host.errors import PyBudaError

if TYPE_CHECKING:
    from jax import Array

Shape = tuple[int, ...]


class Trained(Protocol):
    """What an optimizer needs to know of a parameter; `pybuda.Parameter` has it."""

    @property
    def requires_grad(self) -> bool:
        """Whether it is trained at all."""
        ...

    def get_name(self) -> str:
        """Its name, which is unique among the parameters of a device."""
        ...


class Optimizer:
    """An update rule and its hyperparameters.

    With `device_params` it trains every parameter of its device that requires a gradient, else those of `parameters`.
    """

    state_names: ClassVar[tuple[str, ...]] = ()
    """The names of what it keeps for a parameter from one step to the next, in the order of `start`."""

    def __init__(self, learning_rate: float, parameters: Iterable[Trained] | None, device_params: bool) -> None:
        where = type(self).__name__
        if device_params == (parameters is not None):
            got = "both" if device_params else "neither"
            raise PyBudaError(f"{where}: expected either parameters or device_params=True, got {got}")
        self.learning_rate = number(where, "learning_rate", learning_rate, 0)
        self.device_params = device_params
        self._names: set[str] = set()
        if parameters is not None:
            self.set_parameters_to_optimize(parameters)

    def set_parameters_to_optimize(self, parameters: Iterable[Trained]) -> None:
        """Trains these parameters too; one that requires no gradient stays as it is. Raises PyBudaError."""
        where = f"{type(self).__name__}.parameters"
        for parameter in listed(where, parameters, "parameters", "device_params=True"):
            if not (hasattr(parameter, "get_name") and hasattr(parameter, "requires_grad")):
                raise PyBudaError(f"{where}: expected a pybuda.Parameter, got {parameter!r}; try device_params=True")
            if parameter.requires_grad:
                self._names.add(parameter.get_name())

    def set_optimizer_parameters(self, learning_rate: float | None = None) -> None:
        """Sets the learning rate of the steps to come; None leaves it."""
        if learning_rate is not None:
            self.learning_rate = number(type(self).__name__, "learning_rate", learning_rate, 0)

    def trains(self, parameter: Trained) -> bool:
        """Returns whether this parameter is updated."""
        return parameter.requires_grad and (self.device_params or parameter.get_name() in self._names)

    def get_type(self) -> str:
        """Its name in lower case, such as `adamw`."""
        return type(self).__name__.lower()

    def get_optimizer_state_keys(self) -> list[str]:
        """The names of what it keeps for each parameter."""
        return list(self.state_names)

    def start(self, shape: Shape) -> dict[str, np.ndarray]:
        """Returns what it keeps for a parameter of this shape before the first step, by name, in float32."""
        return {name: np.zeros(shape, np.float32) for name in self.state_names}

    def rule(
        self, weight: Array, gradient: Array, state: Mapping[str, Array], learning_rate: Array
    ) -> tuple[Array, dict[str, Array]]:
        """Returns the new weight and the new state, in JAX; gradient and weight have one shape."""
        raise NotImplementedError


def number(where: str, name: str, value: Any, least: float, below: float = math.inf) -> float:
    """Returns a hyperparameter as a float. Raises PyBudaError unless it is finite, >= `least` and < `below`."""
    try:
        converted = float(value)
    except (TypeError, ValueError):
        converted = math.nan
    if not (least <= converted < below and math.isfinite(converted)):
        limit = f"a number >= {least:g}" + (f" and < {below:g}" if math.isfinite(below) else "")
        raise PyBudaError(f"{where}.{name}: expected {limit}, got {value!r}")
    return converted
