"""A PyTorch module that a program has made, with its weights: exported as the models of files are. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from opscope.models.arguments import ArgSpec, Built
from opscope.models.frontends.base import ExportResult
from opscope.models.frontends.jax import lower, package_versions
from opscope.models.frontends.torch import TorchBuilt
from opscope.models.frontends.torch_modules import parameter_specs, results_of
from opscope.models.frontends.torch_trace import Call, by_trace


def export(module: torch.nn.Module, inputs: Sequence[ArgSpec], positional: bool = True) -> ExportResult:
    """Exports a module in eval mode for inputs of these shapes and types, with its parameters' values.

    `positional`: whether `forward` takes the inputs in order, and not by name. Raises what the module raises.
    """
    built = TorchBuilt(lambda: module, tuple(inputs), positional=positional)
    state = tensors(module)
    specs, names = parameter_specs(module, {})
    with evaluating(module):
        call = by_trace(module, built)

        def forward(w: Mapping[str, Any]) -> tuple[Any, ...]:
            weights = {name: w[spec.name] for spec, name in zip(specs, names, strict=True)}
            return call(weights, [w[spec.name] for spec in inputs])

        arguments = (*specs, *inputs)
        bytecode = lower(Built(forward, arguments), "forward")
    values = {name: array_of(tensor) for name, tensor in state.items()}
    return ExportResult(bytecode, arguments, package_versions(("torch", "torchax")), values)


def tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns what is an argument of an exported module: parameters and running statistics, each tensor once."""
    named = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    specs, names = parameter_specs(module, {})
    return {spec.name: named[name] for spec, name in zip(specs, names, strict=True)}


def function(module: torch.nn.Module) -> Call:
    """Returns a module in eval mode as a function that JAX traces and differentiates: from `tensors`, as arrays by
    name, and inputs in order to its results."""
    call = by_trace(module, TorchBuilt(lambda: module, (), positional=True))

    def evaluated(weights: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        with evaluating(module):
            return call(weights, inputs)

    return evaluated


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Within this context the module, and those in it, are in eval mode."""
    before = {child: child.training for child in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for child, training in before.items():
            child.training = training


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """Returns a tensor's elements."""
    on_cpu = tensor.detach().cpu()
    if on_cpu.dtype == torch.bfloat16:
        import ml_dtypes

        return on_cpu.float().numpy().astype(ml_dtypes.bfloat16)
    return on_cpu.numpy()


def eager(module: torch.nn.Module, inputs: Sequence[Any], names: Sequence[str] = ()) -> list[torch.Tensor]:
    """Returns the module's results in PyTorch itself, in eval mode; whether it notes them for gradients is PyTorch's
    setting."""
    with evaluating(module):
        result = module(**dict(zip(names, inputs, strict=True))) if names else module(*inputs)
        return results_of(result, ())
