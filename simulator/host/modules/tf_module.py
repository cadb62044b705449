"""Keras models and TensorFlow modules as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.models.frontends.base import ExportResult
from opscope.simulator.host.errors import NotThereYet
from opscope.simulator.host.modules.framework_module import FrameworkModule, input_specs


class TFModule(FrameworkModule):
    """A Keras model, on whichever backend it has, or a `tf.Module` that can be called."""

    framework = "tf"

    def __init__(self, name: str, module: Any) -> None:
        """Raises PyBudaError if `module` cannot be called."""
        self.on_jax = _is_keras_on_jax(module)
        self.framework = "keras" if self.on_jax else "tf"
        super().__init__(name, module)
        if not callable(module):
            self.refuse("a Keras model or a tf.Module", type(module).__name__)

    def export(self, inputs: Sequence[np.ndarray]) -> ExportResult:
        """Lowers the model: by JAX if Keras runs on it, else by TensorFlow's bridge to XLA."""
        from opscope.models.frontends import keras as frontend

        if self.on_jax:
            from opscope.models.frontends.base import Source

            specs = input_specs(inputs, self.input_names)
            built = frontend.as_function(self.module, specs)
            result = frontend.FRONTEND.export(built, Source("forward", "", "float32"))
            values = {name: np.asarray(v) for name, v in frontend.named_variables(self.module).items()}
            return ExportResult(result.bytecode, result.arguments, result.frontend, values)
        from opscope.models.frontends.jax import package_versions
        from opscope.models.frontends.tf import TENSORFLOW
        from opscope.models.frontends.through_tf.built import TfBuilt
        from opscope.models.frontends.through_tf.lower import lower

        names = self.input_names
        arguments = input_specs(inputs, names, narrow=False)

        def call(*tensors: Any) -> Any:
            passed = dict(zip((spec.name for spec in arguments), tensors, strict=True))
            if _is_keras(self.module):
                args, named = frontend.call_arguments(self.module, passed, by_name=bool(names))
                return self.module(*args, **named)
            return self.module(passed) if names else self.module(*tensors)

        bytecode, lowered = lower(TfBuilt(call, arguments), "forward")
        return ExportResult(bytecode, lowered.arguments, package_versions((), TENSORFLOW), lowered.values)

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Returns what XLA computes of it on the CPU."""
        if kwargs:
            args = tuple(self.ordered(kwargs))
        return tuple(self.compute(args))

    call = forward

    def backward(self, *args: Any) -> None:
        """Comes with training."""
        raise NotThereYet(f"{self.name}.backward: expected inference, got training; try a PyBudaModule")


def _is_keras(module: Any) -> bool:
    return any(base.__module__.partition(".")[0] == "keras" for base in type(module).__mro__)


def _is_keras_on_jax(module: Any) -> bool:
    if not _is_keras(module):
        return False
    import keras  # pyright: ignore[reportMissingImports]

    return keras.backend.backend() == "jax"
