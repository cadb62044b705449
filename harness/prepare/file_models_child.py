"""The child of `file_models`: parses a file of StableHLO and says which models it holds."""

from __future__ import annotations

from pathlib import Path

from opscope.base.children.inside import Parent
from opscope.harness.prepare import mlir
from opscope.harness.prepare.mlir import file_models
from opscope.harness.record.errors import InputError


def read(parent: Parent) -> list[str] | None:
    """The models of a file, `path` of the task; None where it cannot be read."""
    try:
        return file_models.names(mlir.load(Path(parent.task()["path"])))
    except InputError:
        return None
