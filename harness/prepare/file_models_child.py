"""The child of `file_models`: parses a file of StableHLO and says which models it holds, and how they are sharded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opscope.base.children.inside import Parent
from opscope.base.mesh.shardings import mesh_of, sharding_in
from opscope.harness.prepare import mlir
from opscope.harness.prepare.mlir import collective_groups, file_models
from opscope.harness.record.errors import InputError


def read(parent: Parent) -> dict[str, Any] | None:
    """The models of a file, `path` of the task, and the meshes of those that are sharded; None where it cannot be
    read."""
    path = Path(parent.task()["path"])
    try:
        module = mlir.load(path)
        models = file_models.names(module)
        parts = {"": module, **({name: file_models.select(module, name, str(path)) for name in models})}
    except InputError:
        return None
    return {"models": models, "meshes": {name: mesh for name, part in parts.items() if (mesh := _mesh(part))}}


def _mesh(module: mlir.Module) -> str:
    """The mesh that a module is sharded over, or that its collectives take; empty for a program of one device."""
    if sharding_in(module.operation) is not None:
        return mesh_of(module.operation)
    devices = collective_groups.device_count(module)
    return f"1x{devices}" if devices > 1 else ""
