"""Finding an op of a stored run, and where everything of it lies."""

from __future__ import annotations

from pathlib import Path

from opscope.harness.backends import registry
from opscope.harness.cache import export_folder
from opscope.harness.record import artifacts, explanation, run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.selection import find_op_ids
from opscope.harness.record.stages import FAILED
from opscope.harness.record.store import StoredRun
from opscope.harness.triage import bundle


def find(word: str, run_dir: Path | None, where: str) -> tuple[Path, StoredRun, OpRow, OpTest]:
    """The op that `word` begins the id of. Raises InputError; `where` is the command.

    In run `run_dir`, given by its folder, its name below .opscope/runs or its id. None: in the newest run there in
    which it failed, else in the newest that has it.
    """
    if run_dir is not None:
        name = "" if (run_dir / store.RUN_FILE).is_file() or run_dir.name != str(run_dir) else run_dir.name
        return _of_run(word, run_folders.named(name) or run_dir, where)
    newest = run_folders.newest_run()
    if newest is None:
        raise InputError(
            where,
            "a run that contains the op",
            "no run in .opscope/runs",
            "--run DIR, or opscope repro ID --from URL of an artifact server",
        )
    entries: list[tuple[Path, StoredRun, OpRow, OpTest]] = []
    problem: InputError | None = None
    for folder in [*run_folders.runs_with_ops([word])] or [newest]:
        try:
            entry = _of_run(word, folder, where)
        except InputError as error:
            problem = problem or error
            continue
        if entry[3].status in FAILED:
            return entry
        entries.append(entry)
    if entries:
        return entries[0]
    raise problem or InputError(where, "the id of an op of a run in .opscope/runs", repr(word), "opscope show OP")


def _of_run(word: str, run_dir: Path, where: str) -> tuple[Path, StoredRun, OpRow, OpTest]:
    run = load(run_dir)
    try:
        (op_id,) = find_op_ids(run.rows, [word], where)
    except InputError as error:
        near = error.hint if not error.hint.startswith("-") else "--run DIR if another run contains it"
        raise InputError(where, f"the id of an op of {run_dir}", error.got, near) from None
    row = next(row for row in run.rows if row.op_id == op_id)
    tests = [test for test in run.tests if test.op_id == op_id]
    # On several backends: one that it fails on.
    test = next((test for test in tests if test.status in FAILED), tests[0] if tests else None)
    if test is None:
        raise InputError(where, f"an op with a record in {run_dir}", op_id, "running it first")
    store.refuse_unprepared(run.header, [row], run_dir, where)
    store.refuse_other_values([row], run_dir, where)
    export_folder.refuse_removed(run.header, [row], run_dir, where)
    artifacts.check(run_dir, run.record.run_id, op_id)
    return run_dir, run, row, test


def load(run_dir: Path) -> StoredRun:
    """A run with the places of its export folders: in the cache of now, or in that of the run."""
    run = store.load_run(run_dir)
    caches = dict.fromkeys(map(export_folder.cache_dir, (None, run.record.origin.options.get("cache_dir"))))
    return run._replace(header=export_folder.located(run.header, *caches))


def export_dir(run: StoredRun, row: OpRow) -> Path:
    """The export folder that holds the files of an op."""
    folders = dict(zip(run.header.models, run.header.export_dirs, strict=True))
    return Path(folders[row.uses[0].model])


def origin(run_dir: Path, run: StoredRun, row: OpRow, test: OpTest) -> bundle.Origin:
    """Where a failure of a run comes from. Takes the run's options, except those that the record itself holds."""
    run_options, record = run.record.origin.options, run.record
    backends = registry.split_names(str(run_options.get("backend") or record.backend))
    backend = next((name for name in backends if backend_label(name) == test.backend), test.backend)
    options = bundle.Options.of({**run_options, "backend": backend, "arch": test.arch or record.arch})
    folder = explanation.folder_of(test)
    of_backend = (run_options.get("versions") or {}).get(test.backend) or {}
    return bundle.Origin(
        export_dir=export_dir(run, row),
        options=options,
        run_id=record.run_id,
        seed=int(run_options.get("seed") or 0),
        revision=record.origin.revision,
        backend_revision=record.origin.backend_revision,
        versions={**record.origin.versions, **of_backend},
        explanation=None if folder is None else run_dir / folder,
    )
