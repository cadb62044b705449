"""Modules that are written in TT-Buda's ops."""

from __future__ import annotations

import inspect
import queue
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from opscope.models.arguments import ArgSpec, Built
from opscope.simulator.host.errors import PyBudaError, in_one_line
from opscope.simulator.host.exported import Exported
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.parameter import Parameter
from opscope.simulator.host.tensor import Tensor, array_of
from opscope.simulator.host.tracing import Tracing, tracing


class IntQueueHandle(queue.Queue[Any]):
    """The queue of an op's result: one entry per run, as the device computed it."""

    def __init__(self, op_name: str, output_index: int) -> None:
        super().__init__()
        self.op_name, self.output_index = op_name, output_index


class PyBudaModule(Module):
    """The base of a user's module: parameters are its attributes, and `forward` says what it computes.

        class Matmul(PyBudaModule):
            def __init__(self, name):
                super().__init__(name)
                self.weights = pybuda.Parameter(1, 1, 32, 32, requires_grad=False)

            def forward(self, act):
                return pybuda.op.Matmul("matmul", act, self.weights)

    A dictionary or a list of parameters, and a list of modules, is as good as an attribute for each that is in it then.
    JAX runs `forward` once for inputs of each shape, with arrays that record what is done to them.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._parameters: dict[str, Parameter] = {}
        self._constants: dict[str, Parameter] = {}
        self._modules: dict[str, PyBudaModule] = {}
        self.tapouts: dict[tuple[str, int], IntQueueHandle] = {}

    def __setattr__(self, key: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self.add_parameter(key, value)
        elif isinstance(value, PyBudaModule):
            self._modules[key] = value
        elif isinstance(value, dict):
            for name, each in value.items():
                if isinstance(each, Parameter):
                    self.add_parameter(str(name), each)
        elif isinstance(value, list):
            for number, each in enumerate(value):
                if isinstance(each, Parameter):
                    self.add_parameter(each.get_name() or f"{key}_{number}", each)
                elif isinstance(each, PyBudaModule):
                    self._modules[f"{key}_{number}"] = each
        super().__setattr__(key, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the outputs; a user's class says how."""
        raise PyBudaError(f"{self.name}: expected a method forward of {type(self).__name__}, got none")

    def pre_forward(self, *args: Any, **kwargs: Any) -> None:
        """Called before `forward`, with the same arguments; does nothing by itself."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `forward`, so that a module can be used within another one."""
        self.pre_forward(*args, **kwargs)
        return self.forward(*args, **kwargs)

    # --- parameters and constants

    def add_parameter(self, name: str, parameter: Parameter, prepend_name: bool = False) -> None:
        """Adds a parameter; `prepend_name` puts the module's name before its name."""
        if not isinstance(parameter, Parameter):
            self.refuse("a pybuda.Parameter", type(parameter).__name__)
        key = f"{self.name}.{name}" if prepend_name else name
        parameter.name_by_default(key if prepend_name else f"{self.name}.{name}")
        self._parameters[key] = parameter

    def get_parameter(self, name: str) -> Parameter:
        """Returns a parameter by its attribute's name. Raises PyBudaError."""
        return self._found(self._parameters, "parameter", name)

    def get_parameters(self, submodules: bool = True) -> list[Parameter]:
        """Returns its parameters and, with `submodules`, those of the modules that are its attributes."""
        own = [*self._parameters.values()]
        inner = [p for module in self._modules.values() for p in module.get_parameters()] if submodules else []
        return list({id(parameter): parameter for parameter in [*own, *inner]}.values())

    def set_parameter(self, name: str, data: Any) -> None:
        """Sets a parameter's value. Raises PyBudaError if it is not there, or has another shape."""
        self.get_parameter(name).set_value(data)

    def load_parameter_dict(self, data: Mapping[str, Any]) -> None:
        """Sets the values of several parameters."""
        for name, value in data.items():
            self.set_parameter(name, value)

    def add_constant(self, name: str, prepend_name: bool = False, shape: tuple[int, ...] | None = None) -> None:
        """Adds a constant, whose value is set later."""
        key = f"{self.name}.{name}" if prepend_name else name
        self._constants[key] = Parameter(*(shape or (1,)), requires_grad=False, name=f"{self.name}.{name}")

    def get_constant(self, name: str) -> Parameter:
        """Returns a constant. Raises PyBudaError."""
        return self._found(self._constants, "constant", name)

    def set_constant(self, name: str, data: Any) -> None:
        """Sets a constant's value, which may have another shape. Raises PyBudaError if it is not there."""
        constant = self.get_constant(name)
        array = array_of(data)
        if array.shape != constant.shape:
            self._constants[name] = Parameter(array, requires_grad=False, name=constant.get_name())
        else:
            constant.set_value(data)

    def insert_tapout_queue_for_op(self, op_name: str, output_index: int) -> IntQueueHandle:
        """Makes an op's result an output of the device as well; returns the queue that it goes to."""
        if not isinstance(op_name, str) or not isinstance(output_index, int):
            self.refuse("the name of an op and the number of an output", f"{op_name!r} and {output_index!r}")
        return self.tapouts.setdefault((op_name, output_index), IntQueueHandle(op_name, output_index))

    def _found(self, where: Mapping[str, Parameter], what: str, name: str) -> Parameter:
        if name not in where:
            raise PyBudaError(f"{self.name}: expected a {what} of {', '.join(where) or 'none'}, got {name!r}")
        return where[name]

    # --- what a device needs of it

    def ordered(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Returns inputs by name in the order of `forward`. Raises PyBudaError for names that it has not."""
        try:
            bound = inspect.signature(self.forward).bind(**inputs)
        except TypeError as error:
            self.refuse(f"the inputs {inspect.signature(self.forward)}", str(error))
        return list(bound.arguments.values())

    def names_of_inputs(self, count: int) -> tuple[str, ...]:
        """Returns the names of the first parameters of `forward`."""
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        taken = inspect.signature(self.forward).parameters.values()
        return tuple(parameter.name for parameter in taken if parameter.kind in kinds)[:count]

    def all_parameters(self) -> list[Parameter]:
        """Returns parameters and constants, of its modules too, each once, named. Raises PyBudaError."""
        modules: list[PyBudaModule] = [self]
        for module in modules:
            modules += [inner for inner in module._modules.values() if inner not in modules]
        by_id = {id(p): p for module in modules for p in [*module._parameters.values(), *module._constants.values()]}
        names: dict[str, Parameter] = {}
        for parameter in by_id.values():
            if parameter.get_name() in names:
                self.refuse("parameters with names of their own", f"{parameter.get_name()!r} twice")
            names[parameter.get_name()] = parameter
        return list(names.values())

    def function(self) -> Callable[[Mapping[str, Any], Sequence[Any]], list[Any]]:
        """Returns it as a function that JAX traces: parameters by name, and inputs -> outputs, then tapped results."""
        parameters = self.all_parameters()

        def call(weights: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
            values = {id(parameter): weights[parameter.get_name()] for parameter in parameters}
            trace = Tracing(self.name, values, tuple(self.tapouts))
            with tracing(trace):
                outputs = leaves(self(*inputs))
            missing = [name for name, number in self.tapouts if (name, number) not in trace.tapped]
            if missing:
                self.refuse("an op of that name to tap", repr(missing[0]))
            return [*outputs, *(trace.tapped[key] for key in self.tapouts)]

        return call

    def exported(self, inputs: Sequence[np.ndarray]) -> Exported:
        """Traces `forward`. Raises PyBudaError for whatever it raises."""
        from opscope.models.frontends.jax import lower

        try:
            inspect.signature(self.forward).bind(*inputs)
        except TypeError:
            self.refuse(f"the inputs {inspect.signature(self.forward)}", f"{len(inputs)}")
        values = {parameter.get_name(): parameter.on_device() for parameter in self.all_parameters()}
        specs = [ArgSpec(name, value.shape, value.dtype.name, "", "parameter") for name, value in values.items()]
        taken = [ArgSpec(f"input_{i}", x.shape, traced_type(x.dtype), "", "input") for i, x in enumerate(inputs)]
        function = self.function()

        def forward(w: Mapping[str, Any]) -> list[Any]:
            return function({name: w[name] for name in values}, [w[spec.name] for spec in taken])

        arguments = (*specs, *taken)
        with in_one_line(f"{self.name}: forward"):
            bytecode = lower(Built(forward, arguments), "forward")
        return Exported(self.name, bytecode, arguments, values, self.held_values(), tuple(self.tapouts))

    def held_values(self) -> dict[str, Any]:
        """Returns the objects that are the values of its parameters and constants, by name."""
        return {parameter.get_name(): parameter.value() for parameter in self.all_parameters()}


def leaves(outputs: Any) -> list[Any]:
    """Returns the arrays of whatever `forward` returned: one, or a list, tuple or mapping of them."""
    import jax

    flat = jax.tree.leaves(outputs, is_leaf=lambda value: isinstance(value, Tensor | Parameter))
    return [value if hasattr(value, "aval") else jax.numpy.asarray(array_of(value)) for value in flat]


def traced_type(dtype: np.dtype) -> str:
    """Returns the name of the type in which JAX takes an input: 64 bits become 32."""
    return {"float64": "float32", "int64": "int32", "uint64": "uint32"}.get(dtype.name, dtype.name)
