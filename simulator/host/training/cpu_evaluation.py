"""What the CPU computes of a device's modules, forward and backward, for verification: XLA, without a card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opscope.simulator.host.errors import PyBudaError, in_one_line
from opscope.simulator.host.tensor import array_of
from opscope.simulator.host.training.part import Holder, function_of


class CpuEvaluation:
    """One input of a device, with targets if it has a loss module."""

    def __init__(self, device: Holder, inputs: Sequence[Any], targets: Sequence[Any]) -> None:
        """Raises PyBudaError for modules that JAX does not trace, and for targets without a loss module."""
        if targets and device.loss_module is None:
            device.refuse("a loss module for targets", "none; try place_loss_module")
        self._device, self._inputs = device, [array_of(value) for value in (*inputs, *targets)]
        self._count = len(inputs)
        self._traced, self._parameters = function_of(device, len(inputs), bool(targets))

    def _function(self, weights: Mapping[str, Any], inputs: Sequence[Any]) -> Sequence[Any]:
        """Runs on JAX's arrays: PyTorch's modules, unlike others, take none of NumPy's."""
        import jax.numpy as jnp

        given = {name: jnp.asarray(value) for name, value in weights.items()}
        return self._traced(given, [jnp.asarray(value) for value in inputs])

    @property
    def inputs(self) -> list[np.ndarray]:
        """The input, without targets."""
        return self._inputs[: self._count]

    def forward(self, parameters: Mapping[str, Any]) -> list[np.ndarray]:
        """Returns the outputs, or with targets the losses. Raises PyBudaError."""
        with in_one_line(self._device.name):
            return [np.asarray(value) for value in self._function(self._values(parameters), self._inputs)]

    def backward(
        self, output_gradients: Sequence[Any], parameters: Mapping[str, Any]
    ) -> tuple[list[np.ndarray | None], dict[str, np.ndarray]]:
        """Returns the gradients of the inputs (None of one that is no float), and of the parameters that require one.

        `output_gradients` has one array for each output. Raises PyBudaError.
        """
        import jax
        import jax.numpy as jnp

        values = self._values(parameters)
        trained = {name: value for name, value in values.items() if self._parameters[name].requires_grad}
        floats = [i for i in range(self._count) if jnp.issubdtype(self._inputs[i].dtype, jnp.floating)]

        def call(weights: Mapping[str, Any], replaced: Sequence[Any]) -> list[Any]:
            inputs: list[Any] = list(self._inputs)
            for number, value in zip(floats, replaced, strict=True):
                inputs[number] = value
            return list(self._function({**values, **weights}, inputs))

        with in_one_line(self._device.name):
            outputs, pull = jax.vjp(call, trained, [self._inputs[i] for i in floats])
        incoming = [array_of(value) for value in output_gradients]
        if [array.shape for array in incoming] != [array.shape for array in outputs]:
            wanted, got = ([list(array.shape) for array in arrays] for arrays in (outputs, incoming))
            self._device.refuse(f"gradients of shapes {wanted}, as its outputs have", f"{got}")
        of_weights, of_inputs = pull(
            [jnp.asarray(array, out.dtype) for array, out in zip(incoming, outputs, strict=True)]
        )
        by_number = dict(zip(floats, map(np.asarray, of_inputs), strict=True))
        return (
            [by_number.get(number) for number in range(self._count)],
            {name: np.asarray(value) for name, value in of_weights.items()},
        )

    def _values(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all parameters: those that are named, and of the others what they have now."""
        if unknown := sorted(set(parameters) - set(self._parameters)):
            known = ", ".join(self._parameters) or "none"
            raise PyBudaError(f"{self._device.name}: expected parameters of {known}, got {unknown[0]!r}")
        return {name: array_of(parameters.get(name, parameter.value())) for name, parameter in self._parameters.items()}
