"""The child of `programs.derived_exports`: compiles one model, or each of its ops, and takes the programs apart.

A module that the compiler or the device refuses remains a row as it is, so that the ladder reports the stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opscope.base.children.inside import Parent
from opscope.base.damage import Damaged
from opscope.base.stored import checked
from opscope.harness.backends import registry
from opscope.harness.backends.base import StageError
from opscope.harness.cache import export_folder
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.prepare.whole_manifest import whole_rows
from opscope.harness.programs.pieces import Collected, collect
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import ManifestHeader, OpRow, Source, Use
from opscope.harness.record.workflows import COMPILE_SPLIT


def derive(parent: Parent) -> None:
    """Writes the export folder of a task (harness/programs/derived_exports.py)."""
    task = parent.task()
    context = RunContext.from_json(task["context"])
    backend = registry.load(context.backend)
    options = context.options
    base, temporary, model = Path(task["base"]), Path(task["temporary"]), task["model"]
    for name in (export_folder.OPS, export_folder.VALUES):
        (temporary / name).mkdir()
    _, rows = export_folder.read_manifest(base)
    (whole,) = whole_rows([base])
    into = Collected(temporary, export_folder.cache_dir(None), whole.frontend, f"{task['workflow']}:{whole.provenance}")
    kept: list[OpRow] = []
    units = [whole] if task["workflow"] == COMPILE_SPLIT else rows
    for row in units:
        uses: Sequence[Use] = () if row is whole else row.uses
        try:
            if row.module is None or (row.inputs and not row.sources):
                raise StageError(row.unsplittable or "no inputs")
            module = checked(base, row.module).read_bytes()
            inputs = row_inputs(row, base)
            types = row.argument_types
            collect(into, module, inputs, lambda m, types=types: backend.take_apart(m, options, types), uses, model)
        except Damaged:
            raise
        except Exception:  # noqa: BLE001  the op's own climb will show which stage refuses it, and how
            kept.append(_as_it_is(row, base, temporary))
    all_rows = [*kept, *into.finished()]
    split_off = sum(len(row.uses) for row in all_rows)
    header = ManifestHeader(
        models=(model,),
        export_dirs=(task["folder"],),
        module_ops={model: split_off + into.moves},
        structural={model: into.moves},
    )
    export_folder.write_manifest(temporary, header, all_rows)
    export_folder.publish(temporary, Path(task["folder"]))


def _as_it_is(row: OpRow, base: Path, folder: Path) -> OpRow:
    """A row of the model's own export, with its files."""

    def copied(name: str | None) -> str | None:
        if name is not None and not (folder / name).exists():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(checked(base, name).read_bytes())
        return name

    copied(row.module)
    for source in row.sources:
        _copy_source(source, copied)
    for name in (*row.golden, *row.term_sizes):
        copied(name)
    return row


def _copy_source(source: Source, copied: Any) -> None:
    if source.kind == "captured":
        copied(source.path)
