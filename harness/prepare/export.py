"""From what an exporter handed over, or a file, to a StableHLO module as bytecode with locations."""

from __future__ import annotations

from pathlib import Path

from opscope.models import frontends
from opscope.models.frontends import child
from opscope.models.frontends.base import ExportResult, Source
from opscope.models.registry import Model

Exported = ExportResult
"""A model as StableHLO, and its arguments: none for a file, whose arguments have no law."""


def export_model(model: Model, dtype: str = "float32", training: bool = False) -> Exported:
    """A registered model or its training step, exported in this process. Raises what the model or framework raises."""
    frontend = frontends.get(model.framework)
    source = Source(model.name, str(model.path), dtype, training)
    return frontend.export(frontend.build(source), source)


def stablehlo_of(name: str) -> bytes:
    """StableHLO bytecode of a registered model (entry point `opscope.sources`), of `NAME+training` its training step.

    Raises ValueError for another name.
    """
    from opscope.models import registry

    plain = name.removesuffix(registry.TRAINING)
    model = registry.get(plain)
    if plain != name and not model.trainable:
        raise ValueError(f"{name}: expected a model that can be trained, got {plain}; try {plain}")
    return export_model(model, training=plain != name).bytecode


def handed_over(folder: Path) -> Exported:
    """What an exporter left in its folder. Raises OSError or ValueError where that is not whole."""
    return child.read(folder)


def export_file(path: Path) -> Exported:
    """Reads a StableHLO file (text, bytecode or portable artifact). Raises InputError where it is none of these."""
    from opscope.harness.prepare import mlir

    return Exported(mlir.to_bytecode(mlir.load(path)), (), "file")
