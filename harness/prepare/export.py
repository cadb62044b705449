"""Turns an exporter's output or a file into a StableHLO module: bytecode with locations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.base.temporary_folder import TemporaryFolder
from opscope.models import frontends
from opscope.models.frontends import child
from opscope.models.frontends.base import ExportResult, Source
from opscope.models.registry import Model

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from opscope.harness.prepare.mlir import Module

Exported = ExportResult
"""A model as StableHLO, and its arguments; a file has none, as no distributions of its arguments are known."""


def export_model(model: Model, dtype: str = "float32", training: bool = False) -> Exported:
    """A registered model or its training step, exported in this process. Raises what the model or framework raises."""
    frontend = frontends.get(model.framework)
    source = Source(model.name, str(model.path), dtype, training)
    return frontend.export(frontend.build(source), source)


def export_apart(model: Model, training: bool = False) -> Exported:
    """As `export_model`, in a child of the frontend's own: frameworks choose backends and abort each other.

    Raises ValueError, in one line, for what the model or its framework raises, refuses, or lacks.
    """
    from opscope.harness.prepare import exporting
    from opscope.harness.prepare.allowance import Allowance, ModelRefused

    with TemporaryFolder("export") as folder:
        source = Source(model.name, str(model.path), "float32", training)
        try:
            exporting.run_exporter(exporting.Export(model.framework, source, ()), Path(folder), Allowance())
        except (exporting.ExportFailed, ModelRefused) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{model.name}: expected a model that {model.framework} exports, got {reason}") from error
        return handed_over(Path(folder))


def stablehlo_of(name: str) -> bytes:
    """StableHLO bytecode of a registered model, or of its training step for `NAME+training`.

    Raises ValueError for another name, and for a model that its framework does not export.
    """
    return _named(name).bytecode


def valued_source(name: str, seed: int = 0) -> tuple[bytes, list[tuple[str, str, np.ndarray | None]]]:
    """What `stablehlo_of` returns, and name, role and value of each argument; inputs have no value.

    Values are the model's own, or drawn from the seed as for a run. Raises ValueError for another name.
    """
    from opscope.models.seeding import draw

    exported = _named(name)
    arguments: list[tuple[str, str, np.ndarray | None]] = []
    for index, spec in enumerate(exported.arguments):
        value = exported.values.get(spec.name)
        if value is None and spec.role != "input":
            value = draw(spec.law, spec.shape, spec.dtype, seed, index)
        arguments.append((spec.name, spec.role, value))
    return exported.bytecode, arguments


def _named(name: str) -> Exported:
    from opscope.models import registry

    plain = name.removesuffix(registry.TRAINING)
    model = registry.get(plain)
    if plain != name and not model.trainable:
        raise ValueError(f"{name}: expected a model that can be trained, got {plain}; try {plain}")
    return export_apart(model, training=plain != name)


def handed_over(folder: Path, note: Callable[[str], None] = lambda line: None) -> Exported:
    """Reads what an exporter wrote into its folder, without its effects (mlir/effects.py), which `note` gets a line of.

    Raises OSError or ValueError if it is incomplete.
    """
    exported = child.read(folder)
    from opscope.harness.prepare.mlir import effects

    if not effects.may_have_effects(exported.bytecode):
        return exported
    from opscope.harness.prepare import mlir

    module = mlir.load(exported.bytecode)
    if left_out := effects.without_effects(module):
        note(f"left out {left_out}")
    return replace(exported, bytecode=mlir.to_bytecode(module))


def hand_over(exported: Exported, folder: Path) -> None:
    """Writes what `handed_over` reads. Raises OSError."""
    folder.mkdir(exist_ok=True)
    child.write_result(exported, folder)


def export_file(
    path: Path, model: str = "", shape: str | None = None, note: Callable[[str], None] = lambda line: None
) -> Exported:
    """Reads a StableHLO file (text, bytecode or portable artifact), or one `model` of it (mlir/file_models.py).

    Open dimensions take the sizes of `shape` (mlir/open_shapes.py). `note` gets a line if attributes of dialects that
    are not known were left out (mlir/foreign.py). Raises InputError for anything else.
    """
    from opscope.harness.prepare import mlir

    return exported_module(mlir.load(path), path, model, shape, note)


def exported_module(module: Module, path: Path, model: str, shape: str | None, note: Callable[[str], None]) -> Exported:
    """As `export_file`, of a file that has been read."""
    from opscope.harness.prepare import mlir
    from opscope.harness.prepare.mlir import effects, file_models, foreign

    if left_out := foreign.notes(module):
        note(f"{path.name}: attributes of other dialects are not used: {left_out}")
    module = one_model(module, str(path), model, shape)
    if left_out := effects.without_effects(module):
        note(f"{path.name}: left out {left_out}")
    entry = file_models.entry(module, str(path))
    roles = foreign.roles(module, entry)
    file_models.call_main(module, entry)
    return Exported(mlir.to_bytecode(module), (), "file", roles=roles)


def one_model(module: Module, where: str, model: str = "", shape: str | None = None) -> Module:
    """A file's module, or one `model` of it, without blocks that branch and Shardy's ops that split nothing.

    Open dimensions take the sizes of `shape`, as in export_file.

    Raises InputError, which names `where`."""
    from opscope.harness.prepare.mlir import branches, shardy_ops

    if model:
        from opscope.harness.prepare.mlir import file_models

        module = file_models.select(module, model, where)
    module = shardy_ops.without_shardy_ops(branches.structured(module, where))
    from opscope.harness.prepare.mlir import open_shapes

    return open_shapes.bind(module, shape, where) if shape else open_shapes.folded(module, where)
