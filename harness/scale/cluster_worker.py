"""What runs on a Dask worker: lanes for the ops of a sweep, and a store of their files by content.

The scheduler is given the names of the functions below and bytes and JSON for them; what they return is JSON. Each
device slot of a worker has one lane (`harness/lanes/lane.py`): a child process, so that no op can harm the worker.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from opscope.base import stored
from opscope.base.damage import Damaged
from opscope.base.digest import digest_of_sources
from opscope.base.places import HOME
from opscope.harness.cache import verdict_fingerprint
from opscope.harness.lanes import lists
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow
from opscope.harness.record.store import artifact_dir
from opscope.harness.scale.blobs import Blobs, is_seen

RECORDS = "opscope-records"
"""Dask's topic for records: one for all runs, so that the scheduler keeps only a few of them."""

BATCH_SECONDS = 0.5
"""After so long a worker starts no further op of a batch, because another worker may be idle by then."""

ARTIFACT_BYTES = 32 << 20
"""Bytes of the files that an op leaves (diagnostics, IR) that are sent back at most."""

Json = dict[str, Any]


def hello() -> str:
    """JSON: the code that this worker would run."""
    return json.dumps({"sources": sources()})


@cache
def sources() -> str:
    """Digest of the code that turns an op into a record: equal on both sides, or records would not agree."""
    return digest_of_sources(verdict_fingerprint.sources("harness", "compiler", "simulator"), root=HOME, digits=16)


def token(run_id: str, backend: str) -> str:
    """The name of one backend's sweep of a run."""
    return f"{run_id} {backend}"


def _run_of(token: str) -> str:
    return token.partition(" ")[0]


def ready(message: str) -> str:
    """JSON: what the backend of a sweep reports here (`ready`), or the parts of its refusal (`input_error`)."""
    with _worker_state().lane(json.loads(message)) as slot:
        try:
            return json.dumps({"ready": asdict(slot.lane.ready())})
        except InputError as error:
            return json.dumps({"input_error": [error.where, error.expected, error.got, error.hint]})


def keep(digest: str, offset: int, total: int, data: bytes, dask_worker: Any = None) -> str:
    """Takes one part of a file; the last one puts it into the store. Empty, or why it cannot be kept.

    Dask fills in `dask_worker`.
    """
    return _worker_state(dask_worker).blobs.keep(digest, offset, total, data)


def sees(path: str, expected: str) -> str:
    """Whether the file of this mark (`opscope.harness.scale.blobs.mark`) lies at a path here: `yes`, or empty."""
    return "yes" if is_seen(Path(path), expected) else ""


def climb(message: str, files: dict[str, bytes]) -> str:
    """Takes a batch of ops up the ladder, one after another; `files` by their digests are kept first.

    Each record is published under `RECORDS` as it is made, as JSON: `batch`, `op`, `test`, `files` and `ready`. What is
    returned is empty, or the record of an op that left files, which ends a batch; or `missing` (digests), `damaged` (a
    file below the op's folder, and what is wrong with it), or `input_error`. Ops without a published record were not
    begun.
    """
    from distributed import get_worker

    for digest, data in files.items():
        _worker_state().blobs.keep(digest, 0, len(data), data)  # what cannot be kept is missing
    worker = get_worker()
    return json.dumps(
        _worker_state().climb(json.loads(message), lambda record: worker.log_event(RECORDS, json.dumps(record)))
    )


def leave(token: str, dask_worker: Any = None) -> str:
    """Ends the lanes of a sweep."""
    _worker_state(dask_worker).leave(token)
    return ""


class _FilesAreDamagedError(Exception):
    """An op has not run, as a file of it is damaged: its controller has the model and can make it again."""

    def __init__(self, error: Damaged) -> None:
        super().__init__(str(error))
        self.error = error


def _leave_to_controller(row: OpRow, error: Damaged) -> OpRow:
    raise _FilesAreDamagedError(error)


class _Slot:
    """A lane with a folder for the files of its op and one for what the op leaves."""

    def __init__(self, token: str, task: Json, folder: Path) -> None:
        self.token, self.export, self.run = token, folder / "export", folder / "run"
        self.folder = folder
        self.where = _CurrentFolder(str(self.export))
        self.lists = lists.Sender(task["context"]["backend"], folder.parent)
        context = RunContext.from_json({**task["context"], "run_dir": str(self.run)})
        self.lane = Lane(
            LaneConfig(
                context=context,
                export_dirs=self.where,
                op_timeout=task["op_timeout"],
                memory_limit=task["op_memory"],
                mend=_leave_to_controller,
            )
        )

    def close(self) -> None:
        """Ends the child and takes its folders away."""
        self.lane.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class _CurrentFolder(Mapping[str, str]):
    """One folder for the files of every model: that of the op whose turn it is."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __getitem__(self, model: str) -> str:
        return self.folder

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _WorkerState:
    """The lanes and the store of this worker process."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._idle: dict[str, list[_Slot]] = {}
        self._growing: dict[str, set[Path]] = {}
        """The exports under construction of which a sweep has said what is in them."""
        self.blobs = Blobs(folder / "blobs")

    @contextlib.contextmanager
    def lane(self, task: Json) -> Iterator[_Slot]:
        """A lane of the task's sweep that nobody else uses; a new one where all are at work."""
        token = str(task["token"])
        with self._lock:
            for other in [each for each in self._idle if _run_of(each) != _run_of(token)]:
                # A controller that was killed could not call `leave`.
                for slot in self._idle.pop(other):
                    slot.close()
            idle = self._idle.setdefault(token, [])
            slot = idle.pop() if idle else None
        slot = slot or _Slot(token, task, Path(tempfile.mkdtemp(prefix="lane-", dir=self._folder)))
        try:
            yield slot
        finally:
            with self._lock:
                stays = token in self._idle
                if stays:
                    self._idle[token].append(slot)
            if not stays:
                slot.close()  # the sweep left while this lane was at work

    def climb(self, task: Json, tell: Callable[[Json], None]) -> Json:
        """What `climb` returns; `tell` is called with the records that it publishes."""
        digests = dict.fromkeys(digest for op in task["ops"] for digest in op.get("files", {}).values())
        if missing := [digest for digest in digests if not self.blobs.has(digest)]:
            return {"missing": missing}
        until = None
        with self.lane(task) as slot:
            for op in task["ops"]:
                if until is not None and time.monotonic() > until:
                    break
                answer = self._climbed(slot, op) | {"batch": task["batch"]}
                if answer.get("files") or "test" not in answer:
                    # Files go with the end of a batch: the scheduler keeps what is published under a topic.
                    return answer
                tell(answer)
                until = until or time.monotonic() + BATCH_SECONDS  # the lane may have been started for the first op
        return {}

    def _climbed(self, slot: _Slot, task: Json) -> Json:
        """The record of one op, or what keeps it from being made."""
        row = OpRow.model_validate_json(task["row"])
        slot.where.folder = task.get("folder", str(slot.export))
        self._expect(slot, row, task)
        for folder in (slot.export, slot.run):
            if folder.exists():
                shutil.rmtree(folder, ignore_errors=True)
        try:
            for path, digest in task.get("files", {}).items():
                self.blobs.place(digest, slot.export, path)
        except FileNotFoundError:
            return {"missing": list(task["files"].values())}  # cleared away a moment ago
        if task["fresh"]:
            slot.lane.close()
        try:
            ready = slot.lane.ready()
            test = slot.lane.run(row, attempt=task["attempt"])
        except InputError as error:
            return {"input_error": [error.where, error.expected, error.got, error.hint]}
        except _FilesAreDamagedError as damaged:
            where = os.path.relpath(damaged.error.where, slot.where.folder)
            return {"op": row.op_id, "damaged": [where, damaged.error.got]}
        files = _files_left(artifact_dir(slot.run, row.op_id))
        made = slot.lists.message(slot.lane.last_ready or ready, slot.where.folder)
        return {"op": row.op_id, "test": test.model_dump_json(), "files": files, "ready": asdict(ready), "made": made}

    def _expect(self, slot: _Slot, row: OpRow, task: Json) -> None:
        """Takes over what is known of an op's files in an export under construction, and where that will be."""
        final_dirs = slot.lane.config.final_dirs
        final_dirs.clear()
        if task.get("final") and task["final"] != task.get("folder"):
            final_dirs[row.uses[0].model] = task["final"]
        if expected := task.get("expected"):
            folder = Path(task["folder"])
            stored.expect(folder, {path: stored.FileMark(*mark) for path, mark in expected.items()})
            self._growing.setdefault(slot.token, set()).add(folder)

    def leave(self, token: str) -> None:
        """Ends the idle lanes of a sweep."""
        with self._lock:
            slots = self._idle.pop(token, [])
            for folder in self._growing.pop(token, ()):
                stored.forget(folder)
        for slot in slots:
            slot.close()


def _files_left(folder: Path) -> dict[str, str]:
    """What an op left in its folder, smallest first: name to content in base64."""
    paths = sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    content_of_file, total = {}, 0
    for path in paths:
        total += path.stat().st_size
        if total > ARTIFACT_BYTES:
            break
        content_of_file[path.relative_to(folder).as_posix()] = base64.b64encode(path.read_bytes()).decode()
    return content_of_file


def _worker_state(worker: Any = None) -> _WorkerState:
    """The state of a worker (default: of the one whose task this is)."""
    from distributed import get_worker

    return _state(str((worker or get_worker()).local_directory))


def blobs_of(scratch: str) -> Blobs:
    """The store of files of the worker with a scratch folder."""
    return _state(scratch).blobs


@cache
def _state(scratch: str) -> _WorkerState:
    """The state that belongs to a worker's own scratch folder, which Dask removes with it."""
    folder = Path(scratch) / "opscope"
    folder.mkdir(parents=True, exist_ok=True)
    return _WorkerState(folder)
