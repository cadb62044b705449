"""PyTorch, by one of two doors (torch_doors.py): parameters have shapes and no values, so a model of any size exports.

A module is built with its parameters on PyTorch's meta device. They, and the running statistics of batch norms, become
arguments, with distributions from `weight_distribution`. Every other buffer (position tables, masks) is computed by
the module itself and stays inside as a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.frontends import torch_doors
from opscope.models.frontends.base import ExportResult, Frontend, NoOwnResults, Refused, Source
from opscope.models.frontends.jax import lower, package_versions

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TorchBuilt:
    """A PyTorch model ready to be exported."""

    make: Callable[[], torch.nn.Module]
    """Makes the module; called where parameters get no memory. It is put into eval mode."""
    inputs: tuple[ArgSpec, ...]
    """Arguments of its `forward`, by name; their role is `input`."""
    outputs: tuple[str, ...] = ()
    """The fields of its result that are exported; empty means every tensor of it."""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `forward`, with fixed values."""
    positional: bool = False
    """Whether `forward` takes the inputs in order and not by name."""
    laws: Mapping[str, str] = field(default_factory=dict)
    """Distributions of parameters, in place of those of `weight_distribution`: glob over names -> distribution. The
    first glob that matches counts."""
    dtype: str = ""
    """Its float type, whatever the run asks for, because its published weights have no other. Empty means as asked."""
    loss: Callable[[Any], Any] | None = None
    """See `Built.loss`; takes the tuple of results as JAX arrays."""


@dataclass(frozen=True)
class Torch(Frontend):
    """The exporter of PyTorch modules."""

    name: str = "torch"
    packages: tuple[str, ...] = ("torch",)
    either: tuple[str, ...] = tuple(torch_doors.EXTRAS)
    libraries: tuple[str, ...] = ("transformers", "diffusers", "torch_geometric")
    extra: str = "torch"
    forkable_packages: tuple[str, ...] = ("opscope.models.frontends.torch_ahead",)
    # Not torch_geometric: pyarrow, which it imports, starts a thread.
    forkable_libraries: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {
            "transformers": ("transformers.activations", "transformers.modeling_utils"),
            "diffusers": ("diffusers.models.modeling_utils",),
        }
    )

    def export(self, built: TorchBuilt, source: Source) -> ExportResult:
        """The module of the forward pass, or of a whole training step, which JAX makes: torchax's door alone."""
        if (door := torch_doors.door(source.torch_by)) == torch_doors.TORCH_MLIR:
            refuse_training(source)
            from opscope.models.frontends import torch_export, torch_modules

            module = torch_modules.without_memory(built.make, built.dtype or source.dtype)
            weights, names = torch_modules.parameter_specs(module, built.laws)
            bytecode, arguments = torch_export.lower(module, built, weights, names), (*weights, *built.inputs)
        else:
            function = to_jax(built, source.dtype)
            if source.training:
                from opscope.models.training import step

                function = step(function)
            bytecode, arguments = lower(function, source.name), function.arguments
        return ExportResult(bytecode, arguments, package_versions(("torch", door)))

    def results(self, built: TorchBuilt, source: Source, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """The module in PyTorch's eager mode. Raises NoOwnResults for a training step, which JAX makes."""
        from opscope.models.frontends import torch_eager, torch_modules

        if source.training:
            raise NoOwnResults(torch_eager.NO_TRAINING)
        module = torch_modules.without_memory(built.make, built.dtype or source.dtype)
        specs, names = torch_modules.parameter_specs(module, built.laws)
        called, inputs = torch_modules.Called(module, built), [spec.name for spec in built.inputs]
        weights = dict(zip([spec.name for spec in specs], names, strict=True))
        return torch_eager.results(called, inputs, weights, values)


def refuse_training(source: Source) -> None:
    """Raises Refused for a training step where no function of JAX is made."""
    if source.training:
        hint = f"--torch-by {torch_doors.TORCHAX}"
        raise Refused("--training", "a model whose frontend makes a JAX function of it", source.name, hint)


def to_jax(built: TorchBuilt, dtype: str) -> Built:
    """The model as a function that JAX can trace, with one argument per parameter, running statistic and input."""
    from opscope.models.frontends import torch_modules, torch_trace

    module = torch_modules.without_memory(built.make, built.dtype or dtype)
    specs, names = torch_modules.parameter_specs(module, built.laws)
    call = torch_trace.by_trace(module, built)

    def forward(w: Mapping[str, Any]) -> tuple[Any, ...]:
        weights = {name: w[spec.name] for spec, name in zip(specs, names, strict=True)}
        return call(weights, [w[spec.name] for spec in built.inputs])

    return Built(forward, (*specs, *built.inputs), built.loss)


def image(size: int | tuple[int, int], dtype: str, *, batch: int = 1, name: str = "pixel_values") -> ArgSpec:
    """A batch of normalised RGB images, channels first."""
    height, width = (size, size) if isinstance(size, int) else size
    return ArgSpec(name, (batch, 3, height, width), dtype, "normal:1", "input")


def tokens(vocabulary: int, length: int, *, batch: int = 1, name: str = "input_ids") -> ArgSpec:
    """Token ids."""
    return ArgSpec(name, (batch, length), "int32", f"int:0:{vocabulary}", "input")


def whole_mask(length: int, *, batch: int = 1, name: str = "attention_mask") -> ArgSpec:
    """A mask that hides nothing. It is still an argument, so that the ops on it are exported."""
    return ArgSpec(name, (batch, length), "int32", "ones", "input")


def values(name: str, shape: Sequence[int], dtype: str, law: str = "normal:1") -> ArgSpec:
    """Any other input."""
    return ArgSpec(name, tuple(shape), dtype, law, "input")


FRONTEND = Torch()
