"""PyTorch modules as both doors to StableHLO take them: no memory, parameters with distributions. Imports torch."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from opscope.models.arguments import ArgSpec

if TYPE_CHECKING:
    from opscope.models.frontends.torch import TorchBuilt


def without_memory(make: Callable[[], torch.nn.Module], dtype: str) -> torch.nn.Module:
    """The module in eval mode, its parameters on the meta device, its buffers with the values that it computes."""
    register = torch.nn.Module.register_parameter
    before = torch.get_default_dtype()

    def on_meta(self: torch.nn.Module, name: str, param: torch.nn.Parameter | None) -> None:
        if param is not None and param.device.type != "meta":
            param = torch.nn.Parameter(param.to("meta"), requires_grad=param.requires_grad)
        register(self, name, param)

    torch.nn.Module.register_parameter = on_meta
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        torch.manual_seed(0)
        module = make().eval()
    finally:
        torch.nn.Module.register_parameter = register
        torch.set_default_dtype(before)
    hollow = [name for name, buffer in module.named_buffers() if buffer.device.type == "meta"]
    if hollow:
        raise ValueError(f"torch: expected buffers with values, got none for {', '.join(hollow[:3])}")
    return module


# --- distributions of parameters

EMBEDDING = "normal:0.5"
BIAS = "normal:0.05"
SCALE = "normal:1:0.1"
STATE = {"running_mean": "normal:0.1", "running_var": "uniform:0.5:1.5", "weight": SCALE, "bias": BIAS}
"""Buffers that are arguments, of batch norms and of frozen ones; any other holds what the module computed."""


def parameter_specs(module: torch.nn.Module, distributions: Mapping[str, str]) -> tuple[list[ArgSpec], list[str]]:
    """One argument per parameter and running statistic, in the module's order, and torch's names for them.

    Parameters that are one tensor under two names are one argument.
    """
    specs: list[ArgSpec] = []
    names: list[str] = []
    seen: set[int] = set()
    for owner_name, owner in module.named_modules():
        owned = [(n, p, "parameter") for n, p in owner.named_parameters(recurse=False)]
        owned += [(n, b, "state") for n, b in owner.named_buffers(recurse=False) if n in STATE]
        for short, tensor, role in owned:
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            name = f"{owner_name}.{short}" if owner_name else short
            distribution = next(
                (distribution for glob, distribution in distributions.items() if fnmatch.fnmatchcase(name, glob)), None
            )
            distribution = distribution or (
                STATE[short] if role == "state" else weight_distribution(owner, short, tuple(tensor.shape))
            )
            kind = str(tensor.dtype).removeprefix("torch.")
            specs.append(ArgSpec(name, tuple(tensor.shape), kind, distribution, role))
            names.append(name)
    return specs, names


def weight_distribution(owner: torch.nn.Module, name: str, shape: tuple[int, ...]) -> str:
    """Returns the distribution of a parameter: products keep the variance, so that no output vanishes or overflows.

    Convolutions, mostly before a ReLU, have He's deviation sqrt(2 / inputs), other products 1 / sqrt(inputs).
    """
    kind = type(owner).__name__
    if len(shape) < 2:
        scales = name.endswith(("weight", "gamma", "scale", "lambda1")) and "bias" not in name
        return SCALE if scales else BIAS
    if isinstance(owner, torch.nn.modules.conv._ConvNd):
        transposed = isinstance(owner, torch.nn.modules.conv._ConvTransposeNd)
        # Each output of a transposed convolution is reached by (kernel / stride) inputs per channel.
        fan = shape[0] * math.prod(shape[2:]) / math.prod(owner.stride) if transposed else math.prod(shape[1:])
        return f"normal:{math.sqrt(2 / max(1, fan)):.6g}"
    if isinstance(owner, torch.nn.Embedding) or "embed" in name or "token" in name or math.prod(shape[:-1]) == 1:
        return EMBEDDING
    inputs = shape[0] if kind == "Conv1D" else shape[-1]  # transformers' Conv1D is a transposed linear layer
    return f"normal:{1 / math.sqrt(inputs):.6g}"


# --- calls


def results_of(result: Any, outputs: Sequence[str]) -> list[Any]:
    """The exported tensors of a result, in order."""
    if outputs:
        return [result[name] for name in outputs]
    if hasattr(result, "to_tuple"):
        result = result.to_tuple()
    leaves = pytree.tree_leaves(result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def call_module(module: torch.nn.Module, built: TorchBuilt, inputs: Sequence[Any]) -> list[Any]:
    """The module's results on torch tensors."""
    if built.positional:
        return results_of(module(*inputs, **built.keywords), built.outputs)
    named = {spec.name: value for spec, value in zip(built.inputs, inputs, strict=True)}
    return results_of(module(**named, **built.keywords), built.outputs)


class Called(torch.nn.Module):
    """The module with its fixed arguments, as one that takes the inputs in order."""

    def __init__(self, module: torch.nn.Module, built: TorchBuilt) -> None:
        super().__init__()
        self.module = module
        self.built = built

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        """The module's results."""
        return tuple(call_module(self.module, self.built, inputs))
