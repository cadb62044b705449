"""The CPU as a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opscope.simulator.host.devices.device import Device
from opscope.simulator.host.errors import NoMeaningHere, NotThereYet
from opscope.simulator.host.exported import Exported
from opscope.simulator.host.fitting import fitting
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.tensor import Tensor, array_of
from opscope.simulator.profile import Profile


class XlaModule:
    """A module as a process can run it: exported for inputs of certain shapes."""

    def __init__(self, exported: Exported) -> None:
        self.profile: Profile | None = None
        self.exported, self.hosted = exported, exported.hosted
        self.values: dict[str, np.ndarray] = dict(exported.values)


class CPUDevice(Device):
    """Runs modules on the CPU: those of PyTorch as they are, all others by XLA."""

    def __init__(
        self,
        name: str,
        optimizer_f: Callable[..., Any] | None = None,
        scheduler_f: Callable[..., Any] | None = None,
        mp_context: Any = None,
        retain_backward_graph: bool = False,
        module: Module | list[Module] | None = None,
        input_dtypes: list[Any] | None = None,
    ) -> None:
        """`input_dtypes` are ignored: inputs keep their types. Raises NoMeaningHere for an optimizer."""
        if optimizer_f is not None or scheduler_f is not None:
            raise NoMeaningHere(f"{name}: expected inference, got an optimizer; cards are trained, try a TTDevice")
        self._exported: dict[tuple[Any, ...], XlaModule] = {}
        super().__init__(name, mp_context)
        if module is not None:
            self.place_module(module)

    def run_inputs(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the modules on one input. Raises PyBudaError."""
        values: list[Any] = list(inputs)
        for module in self.modules:
            values = module.compute(values) if self.process is None else self._run(module, values)
        return values

    def can_be_sent(self) -> bool:
        """Whether XLA computes its modules; PyTorch's are live objects, which stay where they were made."""
        return all(type(module).compute is Module.compute for module in self.modules)

    def forget(self) -> None:
        """Forgets what was exported."""
        super().forget()
        self._exported = {}

    def _run(self, module: Module, inputs: Sequence[Any]) -> list[Any]:
        """Returns what its process computes of a module."""
        arrays = [array_of(value) for value in inputs]
        key = (module.name, *((array.shape, array.dtype.name) for array in arrays))
        program = self._exported.get(key)
        if program is None:
            program = self._exported[key] = XlaModule(module.exported(arrays))
        program.values |= {name: array_of(value) for name, value in module.held_values().items()}
        exported = program.exported
        results = self.run_there(program, fitting(module.name, arrays, exported.inputs))
        return results[: len(results) - len(exported.taps)]

    forward_pt = forward_tf = Device.forward
    cpueval_forward_pt = cpueval_forward_tf = Device.cpueval_forward

    def compile_for(  # type: ignore[override]
        self,
        inputs: tuple[Any, ...],
        compiler_cfg: Any,
        targets: list[Any] = [],
        microbatch_size: int = 0,
        microbatch_count: int = 1,
        verify_cfg: Any = None,
    ) -> tuple[Tensor, ...]:
        """Returns the outputs for these inputs, or for zeros of their shapes. Raises PyBudaError."""
        if targets:
            raise NotThereYet(f"{self.name}.compile_for: expected inference, got targets; try a TTDevice")
        filled = [
            np.zeros(value.shape, np.float32) if isinstance(value, Tensor) and not value.has_value() else value
            for value in inputs
        ]
        return tuple(Tensor(value) for value in self.run_inputs(filled))

    compile_for_pt = compile_for

    def compile_for_tf(
        self,
        inputs: tuple[Any, ...],
        compiler_cfg: Any,
        targets: list[Any] = [],
        microbatch_size: int = 0,
        verify_cfg: Any = None,
    ) -> tuple[Tensor, ...]:
        """See `compile_for`."""
        return self.compile_for(inputs, compiler_cfg, targets)

    def pop_parameter_checkpoint(self) -> dict[str, Any]:
        """Returns the values of the parameters of its modules, by name."""
        return {p.get_name(): p.value() for module in self.modules for p in module.get_parameters()}

    def set_debug_gradient_trace_queue(self, q: Any) -> None:
        """Raises NotThereYet: the CPU does not train."""
        raise NotThereYet(f"{self.name}: expected inference, got a queue of gradients; try a TTDevice")
