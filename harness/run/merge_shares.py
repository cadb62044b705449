"""Merges the run folders of shares into the folder that one run of the whole sweep would have written.

Every op's record comes from the share that owned it. The shares must come from one division (`harness/scale/shard.py`),
one manifest and one backend. A missing share is an error, or with `partial` its ops get the status `not_run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from opscope.base.digest import words_digest
from opscope.base.inner_path import copy_folder, inside
from opscope.harness.cache import export_folder, made_of
from opscope.harness.cache.claims import in_use
from opscope.harness.record import artifacts, store
from opscope.harness.record.errors import InputError, resuming
from opscope.harness.record.optest import RunContext, backend_label, repro_line, unrun_test
from opscope.harness.record.origin import CONDITIONS, FOLDER, SOURCE, conditions_of
from opscope.harness.record.records import OpRow, OpTest, RunRecord
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Status
from opscope.harness.record.store import StoredRun
from opscope.harness.run.resume import FREE
from opscope.harness.scale import shard

WHERE = "opscope merge"

OF_THE_SHARE = FREE | {"shard", "shard_costs", "cache_dir", "cluster", FOLDER, SOURCE, CONDITIONS, made_of.RUN}
"""Options that may differ between shares: they affect no record, or are those of the share's machine."""

PARTIAL = "partial"
"""Outcome of a run if some of its shares are missing or did not end."""


@dataclass(frozen=True)
class Part:
    """One share, as stored on disk."""

    folder: Path
    share: shard.Share
    run: StoredRun


def merge(folders: Sequence[Path], into: Path, *, partial: bool = False) -> RunRecord:
    """Writes the run folder `into` and returns its record.

    With `partial`, shares that are missing or did not end leave `not_run` rows and the outcome `partial`. Raises
    InputError if a folder is no share, if shares do not belong together, if one is missing or given twice, or if `into`
    already holds a run.
    """
    parts = _read(folders)
    _check(parts)
    missing = sorted(set(range(1, parts[0].share.of + 1)) - {part.share.index for part in parts})
    if missing and not partial:
        shares = ", ".join(f"{index}/{parts[0].share.of}" for index in missing)
        raise InputError(WHERE, f"all {parts[0].share.of} shares", f"no share {shares}", "--partial")
    cut = [part for part in parts if part.run.record.outcome != "complete"]
    if cut and not partial:
        got = f"{cut[0].folder}, which is {cut[0].run.record.outcome}"
        raise InputError(WHERE, "shares that have finished", got, f"{resuming(cut[0].folder)}, or --partial")
    if (into / store.RUN_FILE).exists():
        raise InputError("--into", "a new folder", f"{into}, which contains a run", "another folder")
    record = _record(parts, PARTIAL if missing or cut else "complete", into)
    tests = [test for part in parts for test in _own(part, record, into)]
    _write(parts, record, [*tests, *_lost(parts[0].run.rows, tests, record, into)], into)
    return record


def _read(folders: Sequence[Path]) -> list[Part]:
    """Reads the shares, first to last. Raises InputError if a folder holds none, or one that still runs."""
    parts = []
    for folder in folders:
        run, share = store.load_run(folder), shard.read(folder)
        if share is None:
            raise InputError(WHERE, "runs of --shard", f"{folder}, which has all ops", "the folders of the shares")
        if in_use(folder):
            raise InputError(
                WHERE, "runs that have ended", f"{folder}, which is still running", "again when it has ended"
            )
        artifacts.check(folder, run.record.run_id)
        parts.append(Part(folder, share, run))
    if not parts:
        raise InputError(WHERE, "the run folders of shares", "none")
    return sorted(parts, key=lambda part: part.share.index)


def _check(parts: Sequence[Part]) -> None:
    """Raises InputError if two parts are the same share or belong to different sweeps."""
    first = parts[0]
    for before, part in pairwise(parts):
        if part.share.index == before.share.index:
            got = f"share {part.share.index}/{part.share.of} in {before.folder} and in {part.folder}"
            raise InputError(WHERE, "each share once", got, "leaving one of the two out")
    for part in parts[1:]:
        differing = _difference(first, part)
        if differing:
            raise InputError(
                WHERE,
                "shares of one sweep",
                f"{first.folder} and {part.folder}, {differing}",
                "running one of them again",
            )


def _difference(first: Part, other: Part) -> str:
    """Describes how two shares differ that should belong to one sweep. Empty if they agree."""
    a, b = first.run, other.run
    if first.share.of != other.share.of:
        return f"which are of {first.share.of} and of {other.share.of}"
    if a.record.models != b.record.models:
        return f"of the models {', '.join(a.record.models)} and {', '.join(b.record.models)}"
    rows, unfinished = {row.op_id: row for row in b.rows}, {*a.header.unfinished, *b.header.unfinished}

    def agree(row: OpRow, other: OpRow | None) -> bool:
        """Of a model that the budget of one job has cut off, that one does not know the goldens."""
        if other is None or row == other:
            return other is not None
        return any(use.model in unfinished for use in row.uses) and row.module == other.module

    odd = next((row for row in a.rows if not agree(row, rows.get(row.op_id))), None)
    if odd is not None or len(a.rows) != len(b.rows):
        return f"whose manifests differ (op {odd.op_id})" if odd else "whose manifests differ"
    first_options, other_options = a.record.origin.options, b.record.origin.options
    for name in sorted({*first_options, *other_options} - OF_THE_SHARE):
        if first_options.get(name) != other_options.get(name):
            return f"with {name} {first_options.get(name)!r} and {other_options.get(name)!r}"
    if first.share.division != other.share.division:
        return "which divide the ops in two ways (did each job have the same --shard-costs?)"
    return ""


def _record(parts: Sequence[Part], outcome: str, into: Path) -> RunRecord:
    """The record of the whole run. It depends on the shares and its folder alone, so publishing it twice changes
    nothing."""
    records = [part.run.record for part in parts]
    started = min(record.started for record in records)
    digest = words_digest(*(record.run_id for record in records), digits=8)
    origin = records[0].origin
    options = {**origin.options, "shard": None, "shard_costs": None, FOLDER: str(into.absolute())}
    of_each = [conditions_of(record.origin.options) for record in records]
    options[CONDITIONS] = {
        name: value for name, value in of_each[0].items() if all(each.get(name) == value for each in of_each)
    }
    hosts = ", ".join(dict.fromkeys(record.origin.host for record in records if record.origin.host))
    return records[0].model_copy(
        update={
            "run_id": f"{started:%Y%m%d-%H%M%S}-{digest}",
            "started": started,
            "ended": max((record.ended for record in records if record.ended is not None), default=None),
            "outcome": outcome,
            "origin": origin.model_copy(update={"options": options, "host": hosts}),
        }
    )


def _own(part: Part, record: RunRecord, into: Path) -> list[OpTest]:
    """The records of the ops that a share owned, as the whole run would have written them."""
    own_ids = frozenset(part.share.ops)
    options = part.run.record.origin.options
    records = []
    for test in part.run.tests:
        if test.op_id in own_ids:
            backends = str(options.get("backend") or "").split(",")
            backend = next((name for name in backends if backend_label(name) == test.backend), test.backend)
            context = _context(record, into, backend)
            update = {"run_id": record.run_id, "repro": repro_line(test.op_id, context)}
            records.append(test.model_copy(update=update))
    return records


def _context(record: RunRecord, into: Path, backend: str) -> RunContext:
    """The context that all ops of the whole run share."""
    server = str(record.origin.options.get("artifact_url") or "")
    return RunContext(record.run_id, str(into), backend, ResultOptions.of_run(record), server=server)


def _lost(rows: Sequence[OpRow], tests: Sequence[OpTest], record: RunRecord, into: Path) -> list[OpTest]:
    """`not_run` records for ops without a record in any share."""
    recorded = {(test.op_id, test.backend) for test in tests}
    return [
        unrun_test(row, _context(record, into, backend), Status.NOT_RUN, "its shard is missing or did not get to it")
        for backend in record.backend.split(",")
        for row in rows
        if row.module is not None and (row.op_id, backend) not in recorded
    ]


def _write(parts: Sequence[Part], record: RunRecord, tests: Sequence[OpTest], into: Path) -> None:
    """Writes the folder, with run.json last, so that an interrupted merge can be repeated."""
    # Each job had its own export folders. A folder on this machine is preferred to one on another, of those that know
    # the goldens of most models.
    runs = sorted((part.run for part in parts), key=lambda run: len(run.header.unfinished))
    runs = [run for run in runs if len(run.header.unfinished) == len(runs[0].header.unfinished)]
    caches = dict.fromkeys(map(export_folder.cache_dir, (None, record.origin.options.get("cache_dir"))))
    located = [(run, export_folder.located(run.header, *caches)) for run in runs]
    run = next((run for run, there in located if export_folder.all_complete(there)), runs[0])
    store.write_manifest(into, run.header, run.rows)
    store.write_whole(into / store.JOURNAL_DIR / "merged.jsonl", b"".join(map(store.line_of, tests)))
    models = {(test.model_name, test.backend): test for part in parts for test in store.whole_tests(part.folder)}
    if models:
        renamed = [test.model_copy(update={"run_id": record.run_id}) for test in models.values()]
        store.write_whole(into / store.WHOLE_FILE, b"".join(map(store.line_of, renamed)))
    for part in parts:
        for op_id in (*part.share.ops, *(test.op_id for test in store.whole_tests(part.folder))):
            source = store.artifact_dir(part.folder, op_id)
            if source.is_dir():
                _copy(part.folder, into, source.relative_to(part.folder))
    store.write_run(into, record)


def _copy(share: Path, into: Path, path: Path) -> None:
    """Copies the diagnostics of one op."""
    try:
        copy_folder(inside(share, path), inside(into, path))
    except OSError as error:
        hint, got = "a share without it, or another --into", error.strerror or str(error)
        raise InputError(str(error.filename or into / path), "a file inside the run", got, hint) from error
