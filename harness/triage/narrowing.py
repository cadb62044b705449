"""What `opscope reduce`, `probe` and `bisect` start from: a repro folder, given itself or as an op of a run."""

from __future__ import annotations

import shutil
from pathlib import Path

from opscope.base.file_names import resolved
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED, Status
from opscope.harness.triage import after_run, bundle, from_run, in_child


def folder_of(word: str, run_dir: Path | None, where: str) -> Path:
    """The repro folder that `word` names: a path, or the id of an op of a run, whose folder is written if it must be.

    Raises InputError: no such op, or one that did not fail. `where` is the command.
    """
    path = Path(word)
    if (path / bundle.FILE).is_file():
        return path
    run_dir, run, row, test = from_run.find(word, run_dir, where)
    if test.status not in FAILED or test.status is Status.NO_GOLDEN:
        raise InputError(where, "an op that failed", f"{test.op_name} [{test.op_id}], which is {test.status}",
                         "opscope show")  # fmt: skip
    folder = after_run.place(run_dir, test)
    if not _whole(folder, test):
        in_child.write(
            after_run.place_to_write(run_dir, test), row, test, from_run.origin(run_dir, run, row, test), where
        )
    return folder


def _whole(folder: Path, test: OpTest) -> bool:
    """Whether the folder is there, of this failure, with its values."""
    try:
        repro = bundle.read(folder)
    except InputError:
        return False
    return repro.failure.same(test) and all(source.kind == "captured" for source in repro.row.sources)


def replaced(folder: Path, out: Path) -> Path:
    """`out` as a place for a new folder. Raises InputError if something else is there."""
    if out.exists() and not (out / bundle.FILE).is_file():
        raise InputError("--out", "a new folder or a repro folder", f"{out}, which is neither")
    if resolved(out) == resolved(folder):
        raise InputError("--out", "a folder other than the original repro folder", str(out))
    shutil.rmtree(out, ignore_errors=True)
    return out
