"""What a compiler made of each op of a run, so that two releases of it can be compared: the last IR, in one file.

    RUN/lowered.json.xz      backend -> op id -> its last IR, without what says nothing of the program
    RUN/structure.json.xz    backend -> op id -> what is in it: ops, fusions, layouts, cycles

`opscope history` and `opscope gate --old --new` keep them.
"""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from opscope.harness.record import artifacts, structure
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import OpTest
from opscope.harness.record.store import read_run, write_whole
from opscope.harness.record.structure import Structure

FILE = "lowered.json.xz"
STRUCTURES = "structure.json.xz"


def keep(run_dir: Path, tests: Iterable[OpTest]) -> Path:
    """Gathers the IR that `--keep-ir` left in a run's folder, and removes it but for ops that went wrong.

    Raises InputError where the folder cannot be written.
    """
    kept: dict[str, dict[str, str]] = {}
    structures: dict[str, dict[str, Any]] = {}
    gathered: list[Path] = []
    for test in tests:
        label = backend_label(test.backend)
        if label not in kept:  # a process that was killed has gathered some
            kept[label] = dict(read(run_dir, label))
            structures[label] = {key: of.model_dump() for key, of in structures_of(run_dir, label).items()}
        if left := structure.left_of(run_dir, test):
            folder, kept[label][test.op_id] = left
            structures[label][test.op_id] = structure.read(folder, kept[label][test.op_id]).model_dump()
            if test.failed_stage is None:
                gathered.append(folder)
    for name, values in ((STRUCTURES, structures), (FILE, kept)):
        text = json.dumps({label: dict(sorted(of.items())) for label, of in sorted(values.items()) if of})
        place = write_whole(run_dir / name, lzma.compress(text.encode()), "a writable folder")
    for folder in gathered:  # once nothing is lost by it
        shutil.rmtree(folder, ignore_errors=True)
    artifacts.seal(run_dir, read_run(run_dir).run_id)
    return place


def read(run_dir: Path, label: str) -> Mapping[str, str]:
    """Op id -> its last IR on a backend; empty where a run has not kept it."""
    return {op_id: str(text) for op_id, text in _of(run_dir / FILE, label).items()}


def structures_of(run_dir: Path, label: str) -> Mapping[str, Structure]:
    """Op id -> the structure of its program on a backend; empty where a run has not kept it."""
    try:
        return {op_id: Structure.model_validate(of) for op_id, of in _of(run_dir / STRUCTURES, label).items()}
    except ValidationError:
        return {}


def _of(file: Path, label: str) -> dict[str, Any]:
    try:
        kept = json.loads(lzma.decompress(file.read_bytes()))
        return {str(op_id): of for op_id, of in kept.get(label, {}).items()}
    except (OSError, ValueError, EOFError, AttributeError, lzma.LZMAError):
        return {}
