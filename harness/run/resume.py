"""Continues a run that was killed, interrupted or out of budget, with the same ops, options and folder.

Ops with a record keep it. Ops that are `not_run`, or in no journal, are run, and the higher attempt counts. The
selection of the first start is stored beside the manifest, so that deselected ops stay deselected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from opscope.base.children.ending import KILLED
from opscope.base.damage import Damaged
from opscope.harness.cache import export_folder
from opscope.harness.cache.claims import in_use
from opscope.harness.prepare.whole_manifest import of_models
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.manifests import merge
from opscope.harness.record.masking import MASK, masked
from opscope.harness.record.records import ManifestHeader, OpRow, OpTest
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import ModelStatus, Status
from opscope.harness.record.store import StoredRun
from opscope.harness.record.workflows import FULL, SPLIT
from opscope.harness.settings.settings import BY_NAME, Resolved

ANEW = frozenset(
    {
        "cluster",
        "publish",
        "publish_timeout",
        "no_report",
        "budget",
        "budget_history",
        "no_cache",
        "max_cache",
        "check_kept",
        "explain_kept",
    }
)
"""Settings that belong not to the run but to each command line that starts or resumes it."""

FREE = ANEW | {
    "op_timeout",
    "op_memory",
    "prepare_timeout",
    "prepare_memory",
    "keep_ir",
    "dump_tensors",
    "limitations",
    "repro_size",
    "reruns",
}
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
        if MASK in str(stored[name]) and masked(value) == stored[name]:
            continue  # its secrets are named again
        if sources[name] == "command line" and value != stored[name]:
            got = f"{value!r}, while the run has {stored[name]!r}"
            raise InputError(BY_NAME[name].flag, "the run's own value with --resume", got, "a new run")
        values[name] = stored[name]
    return values


def publish_again(run: StoredRun, settings: Resolved) -> None:
    """Takes over the database that a run was to be published to, where this command line names none.

    Raises InputError if its password is needed again: run.json has none.
    """
    stored = run.record.origin.options
    url = stored.get("publish")
    if not url or stored.get("no_report") or settings.is_set("publish") or settings["no_report"]:
        return
    if MASK in url:
        raise InputError(
            "--resume",
            f"--publish with the password of {url}, which the run was to be published to",
            "none",
            "--publish URL, or --no-report",
        )
    settings.values["publish"], settings.sources["publish"] = url, "the run"


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


def prepared(run: StoredRun, make: Callable[[], tuple[Sequence[str], ManifestHeader]], *, some: bool) -> StoredRun:
    """The run with the rows of its exports, made if some are not there: those that were removed, those under way when
    the run was killed, those that its budget cut off or did not reach, and those of which a golden, or the whole child,
    was killed. One whose goldens failed of themselves is not made again.

    `make` prepares the models and returns the names of all in their order, and the header. With `some`, the run has
    some of its models' ops only, and models stay left out that the budget did not reach: nobody knows which of their
    ops are meant. A model that the budget of now cuts off stays unfinished; none of its ops can start after it. Raises
    InputError if the run's own models become other ones.
    """
    header, workflow = run.header, ResultOptions.of_run(run.record).workflow
    killed = {use.model for row in run.rows if KILLED.search(row.no_golden) for use in row.uses}
    folders = {
        model: Path(folder)
        for model, folder in zip(header.models, header.export_dirs, strict=True)
        if model not in header.lost
    }
    for model in killed & folders.keys():
        with contextlib.suppress(OSError):  # what is not there, or read-only
            export_folder.remove(folders[model])
    skipped = {
        failure.model
        for failure in header.failed
        if failure.status is ModelStatus.NOT_RUN and failure.model not in header.models and not some
    }
    if not (skipped or header.unfinished) and all(map(export_folder.complete, folders.values())):
        return run
    names, made = make()
    failures = {failure.model: failure for failure in made.failed}
    absent = {model for model, folder in folders.items() if not export_folder.complete(folder)}
    cut_off = {m for m in absent if m in failures and failures[m].status is ModelStatus.NOT_RUN}
    lost = absent - cut_off
    if not lost <= failures.keys() & {*header.unfinished, *header.lost}:
        raise InputError(
            "--resume", "the models and the exporter that the run started with", "different ones", "a new run"
        )
    if cut_off and workflow != SPLIT:
        got = f"{failures[min(cut_off)].error} ({min(cut_off)})"
        raise InputError("--budget", "the time to prepare the models of the run again", got, "a longer time")
    if not (skipped or header.unfinished or cut_off or killed):
        return run
    folders |= {
        model: Path(folder) for model, folder in zip(made.models, made.export_dirs, strict=True) if model in skipped
    }
    manifests = []
    for model in names:
        if model in folders and model not in lost:
            manifests.append(_known(run, model) if model in cut_off else _stored(folders[model], workflow))
    failed = [failure for failure in header.failed if failure.model not in {*header.unfinished, *folders, *skipped}]
    failed += [failure for model, failure in failures.items() if model in {*absent, *skipped}]
    for failure in failed:
        if failure.model in lost or (failure.model in header.lost and failure.model not in folders):
            manifests.append(_known(run, failure.model, f"no goldens of {failure.model}: {failure.error}"))
    joined, rows = merge(manifests)
    ops, known = {row.op_id for row in rows}, {row.op_id for row in run.rows}
    if not known <= ops or (known != ops and not skipped):
        raise InputError("--resume", "the ops that the run started with", "different ones", "a new run")
    unfinished = tuple(model for model in joined.models if model in cut_off)
    kept = {"failed": tuple(failed), "imports": header.imports, "unfinished": unfinished}
    return run._replace(header=joined.model_copy(update=kept), rows=rows)


def _stored(folder: Path, workflow: str) -> tuple[ManifestHeader, list[OpRow]]:
    """What a complete export has for a workflow. Raises InputError."""
    try:
        header, rows = export_folder.read_manifest(folder)
        return of_models(header) if workflow == FULL else (header, rows)
    except Damaged as error:
        raise InputError("--resume", "exports that can be read", str(error), "--resume once more") from error


def _known(run: StoredRun, model: str, no_golden: str = "") -> tuple[ManifestHeader, list[OpRow]]:
    """What a run knows of the ops of one of its models without an export; `no_golden` says why there will be none."""
    folder = run.header.export_dirs[run.header.models.index(model)]
    header = ManifestHeader(
        models=(model,),
        export_dirs=(folder,),
        module_ops={model: run.header.module_ops[model]},
        structural={model: run.header.structural[model]},
        dead={model: run.header.dead.get(model, 0)},
    )
    rows = []
    for row in run.rows:
        if uses := tuple(use for use in row.uses if use.model == model):
            reason = row.no_golden or ("" if row.golden else no_golden)
            rows.append(row.model_copy(update={"uses": uses, "no_golden": reason}))
    return header, rows


def check_backend(run: StoredRun, fingerprint: str) -> None:
    """Raises InputError if the backend has changed since the run began, because the records would not agree."""
    began = run.record.origin.options.get("fingerprint", fingerprint)
    if began != fingerprint:
        raise InputError("--resume", f"the backend that the run started with ({began})", fingerprint, "a new run")
