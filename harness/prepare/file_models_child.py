"""The child of `file_models`: parses a file of StableHLO and says which models it holds, and how they are sharded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opscope.base.children.inside import Parent
from opscope.base.mesh.shardings import GSPMD, mesh_of, sharding_in
from opscope.harness.prepare import mlir
from opscope.harness.prepare.mlir import collective_groups, file_models
from opscope.harness.record.errors import InputError


def read(parent: Parent) -> dict[str, Any] | None:
    """The models of a file, `path` of the task, the meshes of those that are sharded, and what shards those that name
    none; None where it cannot be read."""
    path = Path(parent.task()["path"])
    try:
        module = mlir.load(path)
        models = file_models.names(module)
        parts = {"": module, **({name: file_models.select(module, name, str(path)) for name in models})}
    except InputError:
        return None
    meshes = {name: mesh for name, part in parts.items() if (mesh := _mesh(part))}
    return {"models": models, "meshes": meshes, "gspmd": {n: w for n, part in parts.items() if (w := _by_gspmd(part))}}


def _by_gspmd(module: mlir.Module) -> str:
    """The attribute that shards a module in words of GSPMD alone; empty if Shardy's say it, or nothing does."""
    words = sharding_in(module.operation)
    key = words[1].partition(" = ")[0] if words is not None else ""
    return key if key in GSPMD and "sdy.mesh" not in str(module) else ""


def _mesh(module: mlir.Module) -> str:
    """The mesh that a module is sharded over, or that its collectives take; empty for a program of one device."""
    if sharding_in(module.operation) is not None:
        return mesh_of(module.operation)
    devices = collective_groups.device_count(module)
    return f"1x{devices}" if devices > 1 else ""
