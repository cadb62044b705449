"""The models of a run as rows, one each, read from their export folders: for `--workflow full` and the like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opscope.base.stored import checked
from opscope.harness.cache import export_folder
from opscope.harness.record.records import ManifestHeader, OpRow


def whole_rows(export_dirs: Sequence[str | Path]) -> list[OpRow]:
    """The models as rows, one per export folder that has one. Raises Damaged."""
    folders = [folder for folder in map(Path, export_dirs) if (folder / export_folder.WHOLE).is_file()]
    return [OpRow.model_validate_json(checked(folder, export_folder.WHOLE).read_bytes()) for folder in folders]


def of_models(header: ManifestHeader) -> tuple[ManifestHeader, list[OpRow]]:
    """The manifest of workflow `full`: each model is one row, and nothing in it is structural or dead."""
    rows = whole_rows(header.export_dirs)
    op_count = {row.uses[0].model: 1 for row in rows}
    counts = {"module_ops": op_count, "structural": dict.fromkeys(op_count, 0), "dead": {}}
    return header.model_copy(update=counts), rows
