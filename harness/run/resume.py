"""Continues a run that was killed, interrupted or out of budget, with the same ops, options and folder.

Ops with a record keep it. Ops that are `not_run`, or in no journal, are run, and the higher attempt counts. The
selection of the first start is stored beside the manifest, so that deselected ops stay deselected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.damage import Damaged
from opscope.harness.cache import export_folder
from opscope.harness.cache.claims import in_use
from opscope.harness.prepare.prepare_models import merge
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import Status
from opscope.harness.record.store import StoredRun
from opscope.harness.settings.settings import BY_NAME

if TYPE_CHECKING:
    from opscope.harness.prepare.preparation import Preparation

ANEW = frozenset(
    {"cluster", "publish", "publish_timeout", "no_report", "budget", "budget_history", "no_cache", "max_cache"}
)
"""Settings that belong not to the run but to each command line that starts or resumes it."""

FREE = ANEW | {
    "op_timeout", "op_memory", "prepare_timeout", "prepare_memory", "keep_ir", "dump_tensors", "limitations",
    "repro_size", "reruns",
}  # fmt: skip
"""Settings that may be given with `--resume`."""


def unfinished(run_dir: Path) -> StoredRun:
    """Returns the run to continue. Raises InputError if there is no run, or if it still runs."""
    run = store.load_run(run_dir)
    if in_use(run_dir):
        raise InputError(
            "--resume", "a run that has ended", f"{run_dir}, which is still running", "again when it has ended"
        )
    return run


def options(run: StoredRun, settings: Mapping[str, Any], sources: Mapping[str, str]) -> dict[str, Any]:
    """The values of all settings: the run's own, except those that each start sets again. Raises InputError."""
    stored, values = run.record.origin.options, dict(settings)
    for name, value in settings.items():
        if name in ANEW or (name in FREE and sources[name] == "command line"):
            continue
        if name not in stored:
            continue  # a setting that did not exist yet when the run started
        if sources[name] == "command line" and value != stored[name]:
            got = f"{value!r}, while the run has {stored[name]!r}"
            raise InputError(BY_NAME[name].flag, "the run's own value with --resume", got, "a new run")
        values[name] = stored[name]
    return values


def recorded(tests: Iterable[OpTest]) -> dict[str, OpTest]:
    """The records that stay, by op: all except those with status `not_run`."""
    return {test.op_id: test for test in tests if test.status is not Status.NOT_RUN}


def attempts(tests: Iterable[OpTest]) -> dict[str, int]:
    """The number of the next attempt at each op of a journal."""
    next_attempt: dict[str, int] = {}
    for test in tests:
        next_attempt[test.op_id] = max(next_attempt.get(test.op_id, 1), test.attempt + 1)
    return next_attempt


def select(run_dir: Path, rows: Iterable[OpRow], selected: Iterable[str]) -> None:
    """Stores which ops are selected, unless these are all ops or the selection is already stored."""
    chosen = set(selected)
    path = run_dir / store.SELECTION_FILE
    if path.exists() or chosen == {row.op_id for row in rows if row.module is not None}:
        return
    with contextlib.suppress(InputError):  # a full disk is reported by the journal
        store.write_json(path, {"ops": sorted(chosen)})


def selection(run_dir: Path) -> tuple[str, ...] | None:
    """Ids of the selected ops; None means all. Raises InputError if the file is unreadable."""
    path = run_dir / store.SELECTION_FILE
    value = store.read_json(path, "a list of op ids")
    try:
        # Older runs hold the list itself.
        return None if value is None else tuple(map(str, value["ops"] if isinstance(value, dict) else value))
    except (KeyError, TypeError) as error:
        raise InputError(str(path), "a list of op ids", f"something else ({error})", "a new run") from error


def prepared(run: StoredRun, preparation: Preparation, make: Callable[[Preparation], Any]) -> None:
    """Exports the models of the run again if the exports were removed. Raises InputError if the new ones differ."""
    if export_folder.all_complete(run.header):
        return
    make(preparation)
    if not export_folder.all_complete(run.header):
        raise InputError(
            "--resume", "the models and the exporter that the run started with", "different ones", "a new run"
        )


def with_goldens(run: StoredRun) -> StoredRun:
    """A run that was killed while goldens were made, with the rows of its exports, which are complete now.

    Raises InputError if they have other ops than the run began with.
    """
    folders = list(map(Path, run.header.export_dirs))
    try:
        header, rows = merge([export_folder.read_manifest(folder) for folder in folders])
    except Damaged as error:
        raise InputError("--resume", "exports that can be read", str(error), "--resume once more") from error
    if {row.op_id for row in rows} != {row.op_id for row in run.rows}:
        raise InputError("--resume", "the ops that the run started with", "different ones", "a new run")
    kept = {"failed": run.header.failed, "imports": run.header.imports}
    return run._replace(header=header.model_copy(update=kept), rows=rows)


def check_backend(run: StoredRun, fingerprint: str) -> None:
    """Raises InputError if the backend has changed since the run began, because the records would not agree."""
    began = run.record.origin.options.get("fingerprint", fingerprint)
    if began != fingerprint:
        raise InputError("--resume", f"the backend that the run started with ({began})", fingerprint, "a new run")
