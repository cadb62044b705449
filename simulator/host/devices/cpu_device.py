"""The CPU as a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from opscope.simulator.host.devices.device import Device
from opscope.simulator.host.errors import NotThereYet
from opscope.simulator.host.modules.module import Module


class CPUDevice(Device):
    """Runs modules on the CPU: those of PyTorch as they are, all others by XLA."""

    def __init__(
        self, name: str, optimizer_f: Callable[..., Any] | None = None, scheduler_f: Callable[..., Any] | None = None,
        mp_context: Any = None, retain_backward_graph: bool = False, module: Module | list[Module] | None = None,
        input_dtypes: list[Any] | None = None,
    ) -> None:  # fmt: skip
        """`input_dtypes` are ignored: inputs keep their types. Optimizers come with training."""
        if optimizer_f is not None or scheduler_f is not None:
            raise NotThereYet(f"{name}: expected inference, got an optimizer; training is not there yet")
        super().__init__(name, mp_context)
        if module is not None:
            self.place_module(module)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the modules on one input. Raises PyBudaError."""
        values: list[Any] = list(inputs)
        for module in self.modules:
            values = module.compute(values)
        return values
