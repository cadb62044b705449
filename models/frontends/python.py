"""A user's own Python file: a JAX function, a PyTorch, Keras, Flax or Equinox module, with example inputs.

`through_python/load.py` describes what the file must hold. Every framework's random numbers are seeded before it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opscope.base.after_import import after_import
from opscope.models.frontends import torch_doors
from opscope.models.frontends.base import ExportResult, Frontend, NoOwnResults, Refused, Source
from opscope.models.frontends.jax import compiled_results, exported, package_versions
from opscope.models.frontends.torch import refuse_training

if TYPE_CHECKING:
    from opscope.models.frontends.through_python.convert import Converted

PACKAGES = {
    "jax": ("jax",),
    "flax": ("flax", "jax"),
    "equinox": ("equinox", "jax"),
    "keras": ("keras", "jax"),
    "torch": ("torch", *torch_doors.EXTRAS),
}
"""Framework -> the packages whose versions records show."""


@dataclass(frozen=True)
class Python(Frontend):
    """The exporter of users' files."""

    name: str = "python"
    packages: tuple[str, ...] = ("jax", "jaxlib")
    optional: tuple[str, ...] = tuple(sorted({package for of in PACKAGES.values() for package in of} - {"jax"}))
    environment: Mapping[str, str] = field(default_factory=lambda: {"KERAS_BACKEND": "jax"})

    def build(self, source: Source) -> Converted:
        """Returns the model in the file, with the values of its weights and example inputs."""
        import random

        import numpy as np

        from opscope.models.frontends.through_python.convert import convert
        from opscope.models.frontends.through_python.load import load

        random.seed(0)
        np.random.seed(0)
        after_import("torch", _seed)  # if the file asks for it at all: a broken one harms no other
        try:
            loaded = load(Path(source.path), source.entry)
        except ModuleNotFoundError as error:
            from opscope.models.frontends.through_python.missing_modules import refused

            raise refused(error, Path(source.path)) from None
        converted = convert(loaded)
        if source.torch_by and converted.framework != "torch":
            got = f"one of {converted.framework}"
            raise Refused(f"--torch-by {source.torch_by}", "a model of PyTorch", got, "leaving it out")
        return converted

    def export(self, built: Converted, source: Source) -> ExportResult:
        """Exports the forward pass, or a whole training step."""
        if built.lowered is not None and (door := torch_doors.door(source.torch_by)) == torch_doors.TORCH_MLIR:
            refuse_training(source)
            return ExportResult(built.lowered(), built.arguments, package_versions(("torch", door)), built.values)
        function = built.built()
        if source.training:
            from opscope.models.training import step

            function = step(function)
        try:
            return exported(function, source.name, _versions(built.framework), built.values)
        except _decided_by_arrays() as error:
            from opscope.models.frontends.child import in_one_line

            got, inputs = in_one_line(error, source.path), [s.name for s in function.arguments if s.role == "input"]
            hint = f"static = {{NAME}} in the file, of {', '.join(inputs)}, or a value in place of an array"
            raise Refused(f"--model {source.path}", "Python decisions that need no array", got, hint) from None

    def results(self, built: Converted, source: Source, values: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
        """PyTorch in eager mode; JAX and the libraries on it, compiled by JAX."""
        if built.own is None:
            return compiled_results(built.built(), source, values)
        if source.training:
            from opscope.models.frontends.torch_eager import NO_TRAINING

            raise NoOwnResults(NO_TRAINING)
        return built.own(values)


def _versions(framework: str) -> str:
    packages = PACKAGES[framework]
    return package_versions(packages if framework != "torch" else ("torch", torch_doors.TORCHAX))


def _seed(torch: ModuleType) -> None:
    if (seed := getattr(torch, "manual_seed", None)) is not None:  # else a module of the user's has this name
        seed(0)


def _decided_by_arrays() -> tuple[type[Exception], ...]:
    """What JAX raises where a program's Python asks for the value of an array."""
    import jax

    return (jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError)


FRONTEND = Python()
