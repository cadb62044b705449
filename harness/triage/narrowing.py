"""What `opscope reduce`, `probe` and `bisect` start from: a repro folder, given itself or as an op of a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from opscope.base.file_names import resolved
from opscope.base.results_folder import results_folder
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import FAILED, Status
from opscope.harness.record.store import StoredRun
from opscope.harness.triage import after_run, bundle, elsewhere, fetch, from_run, in_child

Found = tuple[Path, StoredRun, OpRow, OpTest]


def find(word: str, run_dir: Path | None, source: str | None, where: str, out: Path | None = None) -> Found | Path:
    """The op that `word` begins the id of, in a run of this machine; or its repro folder, fetched to `out`.

    In run `run_dir`; or from `source`, an artifact server or a database; else in the runs of this folder, or in those
    that its database knows. Raises InputError that says why not; `where` is the command.
    """
    if source is not None and fetch.is_server(source):
        return fetch.fetch(source, word, str(run_dir or ""), out or results_folder() / "repro" / word, where)
    if source is not None and not elsewhere.is_database(source):
        raise InputError(
            "--from",
            "http://HOST:PORT of an artifact server or the URL of a database",
            source,
            "opscope artifacts serve on the machine that has the run",
        )
    if source is None:
        try:
            return from_run.find(word, run_dir, where)
        except InputError as error:
            places = [] if run_dir is not None else elsewhere.known(word, None)
            if not places:
                raise error from None
    else:
        places = elsewhere.known(word, source, str(run_dir or ""))
        if not places:
            raise InputError("--from", f"a database with a run of op {word}", "none in it", "opscope show OP --db URL")
    here = elsewhere.run_here(places)
    if here is not None:
        return from_run.find(*here, where)
    return elsewhere.fetched(places, out, where)


def folder_of(word: str, run_dir: Path | None, where: str, source: str | None = None, any_status: bool = False) -> Path:
    """The repro folder that `word` names: a path, or the id of an op, whose folder is written or fetched if it must be.

    `run_dir` and `source` are as for `find`. Raises InputError: no such op, or one that did not fail, where it may not
    have `any_status`. `where` is the command.
    """
    path = Path(word)
    if (path / bundle.FILE).is_file():
        return path
    candidate = find(word, run_dir, source, where)
    fits = any_status or isinstance(candidate, Path) or narrowable(candidate[3])
    if not fits and not isinstance(candidate, Path) and run_dir is None and source is None:
        # It passes in every run of this folder; its database may know one elsewhere in which it fails.
        candidate = next(_failing_here(candidate[3].op_id, where), candidate)
    if isinstance(candidate, Path):
        return candidate
    run_dir, run, row, test = candidate
    if not any_status and not narrowable(test):
        raise InputError(
            where, "an op that failed", f"{test.op_name} [{test.op_id}], which is {test.status}", "opscope show"
        )
    folder = after_run.place(run_dir, test)
    if not _whole(folder, test):
        in_child.write(
            after_run.place_to_write(run_dir, test), row, test, from_run.origin(run_dir, run, row, test), where
        )
    return folder


def narrowable(test: OpTest) -> bool:
    """Whether a record is a failure that a repro folder can show again."""
    return test.status in FAILED and test.status is not Status.NO_GOLDEN


def _failing_here(op_id: str, where: str) -> Iterator[Found]:
    """The op in runs of this machine that this folder's database knows, and in which it fails."""
    for place in elsewhere.known(op_id, None):
        if place.is_here:
            candidate = from_run.find(op_id, Path(place.run_dir), where)
            if narrowable(candidate[3]):
                yield candidate


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
