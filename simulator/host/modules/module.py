"""The base of all modules."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.exported import Exported
from opscope.simulator.host.fitting import fitting
from opscope.simulator.host.hosted_program import in_order
from opscope.simulator.host.parameter import Parameter
from opscope.simulator.host.tensor import array_of

if TYPE_CHECKING:
    from opscope.simulator.host.devices.device import Device


class Module:
    """A workload that can be assigned to one device."""

    takes_whole_inputs = False
    """Whether its shapes are fixed, so that what is pushed is one input, whatever its leading size."""

    def __init__(self, name: str) -> None:
        """Raises PyBudaError for a name that is none."""
        if not isinstance(name, str) or not name:
            raise PyBudaError(f"{type(self).__name__}: expected a name first, got {name!r}")
        self.name = name
        self._device: Device | None = None

    def get_device(self) -> Device | None:
        """Returns the device that it is placed on; None before that."""
        return self._device

    def get_name(self) -> str:
        """Returns its name."""
        return self.name

    def set_device(self, device: Device | None) -> None:
        """Notes the device that it is placed on."""
        self._device = device

    def run(self, *args: Any) -> tuple[Any, ...]:
        """Runs it on a device of its own, and returns the outputs. No other module may be placed on any device."""
        from opscope.simulator.host.run import run_module

        return run_module(self, args)

    def exported(self, inputs: Sequence[np.ndarray]) -> Exported:
        """Returns it as StableHLO for inputs like these. Raises PyBudaError if its framework refuses them."""
        raise NotImplementedError(f"{type(self).__name__}.exported")

    def ordered(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Returns inputs that are given by name in the order of its arguments. Raises PyBudaError."""
        self.refuse("inputs in order", f"inputs by name ({', '.join(inputs)})")

    def names_of_inputs(self, count: int) -> tuple[str, ...]:
        """Returns what its inputs are called, in order, as far as that is known."""
        return ()

    def held_values(self) -> dict[str, Any]:
        """Returns the objects that are the values of its parameters, by name, if it can change them."""
        return {}

    def get_parameters(self, submodules: bool = True) -> list[Parameter]:
        """Returns its parameters; none are known of a framework's model unless its wrapper says so."""
        return []

    def compute(self, inputs: Sequence[Any], parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Returns its outputs as XLA computes them on the CPU, in its own float types; `parameters` replace its own.

        Raises PyBudaError.
        """
        arrays = [array_of(value) for value in inputs]
        exported = self.exported(arrays)
        fits = fitting(self.name, arrays, exported.inputs)
        replaced = {name: array_of(value) for name, value in (parameters or {}).items() if name in exported.values}
        program = exported.hosted
        results = program.load().run(in_order(program, fits, {**exported.values, **replaced}))
        return results[: len(results) - len(exported.taps)]

    def sources(self) -> dict[str, str]:
        """Returns the source text of its class, for people who read its image: file name -> text; {} if unknown."""
        try:
            return {f"{type(self).__name__}.py": inspect.getsource(type(self))}
        except (OSError, TypeError):  # made in a console
            return {}

    def refuse(self, expected: str, got: str) -> NoReturn:
        """Raises PyBudaError in its name."""
        raise PyBudaError(f"{self.name}: expected {expected}, got {got}")
