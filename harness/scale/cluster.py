"""`--cluster`: the ops of a run on the workers of a Dask cluster, behind the face of one lane.

The controller chooses the worker of each op, sends it the files that it lacks, by content, and takes records as they
come. Only bytes and JSON travel, and the names of the functions in `harness/scale/cluster_worker.py`. The ops of a
worker that died are run elsewhere; one with which several workers died has crashed.
"""

from __future__ import annotations

import base64
import json
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from harness.errors import InputError
from harness.flight import Flight, Ready
from harness.lane import LaneConfig
from harness.lane_process import LaneDownError
from harness.optest import RunContext, repro_line
from harness.records import OpRow, OpTest
from harness.scale import cluster_worker
from harness.scale.blobs import digest_of
from harness.scale.connection import Connection, Slots
from harness.stages import Stage, Status
from harness.store import artifact_dir

AHEAD = 1
"""So many ops wait on a worker besides those that its devices are at: none of them idles while a record travels."""

BESIDE_BYTES = 1 << 20
"""A file of at most this size travels with its op; larger ones before it, in parts."""

MOST_LOST = 3
"""An op that so many workers died with has crashed."""

WORKERLESS_SECONDS = 60.0
"""So long may a cluster be without workers before the run is given up (it can be resumed)."""

_POLL_SECONDS = 1.0


@dataclass
class _Op:
    """An op that is not done yet."""

    row: OpRow
    attempt: int
    fresh: bool = False
    """Whether its lane must be one in which no other op has run."""
    sent: int = 0
    """How often it was handed to Dask."""
    worker: str = ""
    lost: int = 0
    """How many workers died at it, or beside it."""
    future: Any = None


@dataclass
class _Work:
    """What is under way."""

    waiting: deque[_Op] = field(default_factory=deque)
    flying: dict[Any, _Op] = field(default_factory=dict)
    """By the key of Dask's future."""
    done: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)


class ClusterLane:
    """Does what `harness.lane.Lane` does, on a cluster; besides `run`, `arrivals` keeps all its devices at work."""

    def __init__(self, address: str, config: LaneConfig) -> None:
        self.config = config
        self._address = address
        self._connection: Connection | None = None
        self._ready: Ready | None = None
        self._said: Ready | None = None
        self._arrived: dict[str, tuple[OpTest, Ready]] = {}
        self._digests: dict[Path, str] = {}
        self._work = _Work()
        self._fresh = False

    # --- the face of a lane

    def start(self) -> None:
        """Connects. Raises InputError where there is no such cluster."""
        if self._connection is None:
            self._connection = Connection(self._address, cluster_worker.sources())

    def ready(self) -> Ready:
        """What the backend says on a worker. Raises InputError where it refuses, or no worker has a device."""
        self.start()
        assert self._connection is not None
        if self._ready is None:
            answer = self._connection.ask(cluster_worker.ready, json.dumps(self._task()), self.config.start_timeout)
            if "input_error" in answer:
                raise InputError(*answer["input_error"])
            self._ready = _ready_of(answer["ready"])
        return self._ready

    @property
    def said(self) -> Ready | None:
        """What the child that made the last record had said."""
        return self._said or self._ready

    def holds(self, row: OpRow) -> bool:
        """Whether the record of an op has come already."""
        return row.op_id in self._arrived

    def run(self, row: OpRow, *, attempt: int = 1) -> OpTest:
        """The record of one op: the one that has come, or one that is made now."""
        if row.op_id not in self._arrived:
            others, self._work = self._work, _Work()  # a failed op is run again while others are under way
            try:
                for _ in self.arrivals([row], {row.op_id: attempt}):
                    pass
            finally:
                self._work = others
        test, self._said = self._arrived.pop(row.op_id)
        return test

    def fresh(self) -> None:
        """Has the next op run in a child in which no other op has run."""
        self._fresh = True

    def close(self) -> None:
        """Leaves the cluster: what is under way is cancelled, the lanes of this run end."""
        connection, self._connection = self._connection, None
        self._work = _Work()
        if connection is not None:
            connection.close(cluster_worker.leave, self.config.context.run_id)

    # --- many at once

    def arrivals(
        self, rows: Iterable[OpRow], attempts: Mapping[str, int], in_time: Callable[[], bool] = lambda: True
    ) -> Iterator[str]:
        """The ids of the ops as their records come; `run` then has them. None is sent once `in_time` says no.

        Raises InputError where the cluster is lost.
        """
        self.ready()
        work = self._work = _Work()
        work.waiting.extend(_Op(row, attempts.get(row.op_id, 1), self._fresh) for row in rows)
        self._fresh = False
        workerless: float | None = None
        while work.flying or (work.waiting and in_time()):
            slots = self._connected().slots()
            yield from self._orphans()
            if in_time():
                self._send(slots)
            try:
                future = work.done.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                workerless = None if slots else workerless or time.monotonic()
                if workerless is not None and time.monotonic() - workerless > WORKERLESS_SECONDS:
                    raise InputError(f"--cluster {self._address}", "workers with devices", "none any more",
                                     "--resume when there are some") from None  # fmt: skip
                continue
            op = work.flying.pop(future.key, None)
            if op is not None and self._landed(op, future):
                yield op.row.op_id

    def _connected(self) -> Connection:
        self.start()
        assert self._connection is not None
        return self._connection

    def _send(self, slots: Slots) -> None:
        """Hands ops to workers until each has one more than it has devices."""
        work = self._work
        busy: dict[str, int] = dict.fromkeys(slots, 0)
        for op in work.flying.values():
            busy[op.worker] = busy.get(op.worker, 0) + 1
        while work.waiting:
            free = [name for name in slots if busy[name] < slots[name] + AHEAD]
            if not free:
                return
            worker = min(free, key=lambda name: (busy[name] / slots[name], name))
            op = work.waiting.popleft()
            if self._hand(op, worker):
                busy[worker] += 1
            else:
                work.waiting.appendleft(op)
                slots = {name: number for name, number in slots.items() if name != worker}

    def _hand(self, op: _Op, worker: str) -> bool:
        """Sends an op and what it needs to a worker; False where that is gone."""
        connection = self._connected()
        folder = Path(self.config.export_dirs[op.row.uses[0].model])
        files = {path: self._digest(folder / path) for path in _paths(op.row)}
        beside: dict[str, bytes] = {}
        for path, digest in files.items():
            if connection.has(worker, digest):
                continue
            if (folder / path).stat().st_size <= BESIDE_BYTES:
                beside[digest] = (folder / path).read_bytes()
            elif not connection.ship(cluster_worker.keep, worker, folder / path, digest):
                return False
        connection.note(worker, beside)
        op.sent, op.worker = op.sent + 1, worker
        task = self._task() | {
            "row": op.row.model_dump_json(), "attempt": op.attempt, "files": files, "fresh": op.fresh,
        }  # fmt: skip
        key = f"opscope-{self.config.context.run_id}-{op.row.op_id}-{op.attempt}-{time.monotonic_ns()}"
        future = connection.submit(cluster_worker.climb, json.dumps(task), beside, key, worker)
        op.future = future
        self._work.flying[future.key] = op
        future.add_done_callback(self._work.done.put)
        return True

    def _orphans(self) -> Iterator[str]:
        """Takes back the ops whose worker died: they wait again, or, after `MOST_LOST` of them, have crashed."""
        work, connection = self._work, self._connected()
        for key, op in list(work.flying.items()):
            if connection.alive(op.worker):
                continue
            del work.flying[key]
            op.future.cancel()
            op.lost += 1
            if op.lost < MOST_LOST:
                work.waiting.appendleft(op)
            else:
                self._arrived[op.row.op_id] = self._lost(op), self.ready()
                yield op.row.op_id

    def _landed(self, op: _Op, future: Any) -> bool:
        """Takes an answer in; False where the op has to be sent once more."""
        try:
            answer: dict[str, Any] = json.loads(future.result(timeout=60))
        except Exception as error:  # noqa: BLE001 - Dask's errors have no common base
            if type(error).__name__ == "KilledWorker":
                self._arrived[op.row.op_id] = self._lost(op), self.ready()
                return True
            if op.sent >= 4:
                got = f"{type(error).__name__}: {error}"
                raise InputError(f"--cluster {self._address}", "an answer", got, "the log of a worker") from None
            answer = {"missing": []}
        if "input_error" in answer:
            raise InputError(*answer["input_error"])
        if "missing" in answer:
            # It was moved to another worker, or that one had cleared it away.
            self._connected().forget(answer["missing"])
            self._work.waiting.appendleft(op)
            return False
        said = _ready_of(answer["ready"])
        if said.fingerprint != self.ready().fingerprint:
            raise InputError(f"--cluster {self._address}", f"the same backend everywhere ({self.ready().fingerprint})",
                             f"{said.fingerprint} on {op.worker}", "the same versions on all workers")  # fmt: skip
        test = OpTest.model_validate_json(answer["test"])
        context = self.config.context
        self._keep(op.row.op_id, answer["files"])
        self._arrived[op.row.op_id] = test.model_copy(update={"repro": repro_line(test.op_id, context)}), said
        return True

    def _lost(self, op: _Op) -> OpTest:
        """The record of an op whose workers died, one after another."""
        ready = self.ready()
        context: RunContext = replace(self.config.context, card_type=ready.card_type)
        down = LaneDownError(Status.CRASHED, "worker lost", "its worker died, again and again")
        return Flight(op.row, context, ready, op.attempt).ended(down, "(it died with its worker)")

    def _keep(self, op_id: str, files: Mapping[str, str]) -> None:
        """Writes what an op left into the run folder; a full disk must not turn one verdict into another."""
        folder = artifact_dir(Path(self.config.context.run_dir), op_id)
        for name, content in files.items():
            parts = PurePosixPath(name)
            if parts.is_absolute() or ".." in parts.parts:
                continue
            try:
                (folder / parts).parent.mkdir(parents=True, exist_ok=True)
                (folder / parts).write_bytes(base64.b64decode(content))
            except OSError:
                return

    def _task(self) -> dict[str, Any]:
        """What every message says."""
        config = self.config
        return {
            "token": config.context.run_id,
            "context": {**asdict(config.context), "run_dir": ""},
            "op_timeout": config.op_timeout,
            "op_memory": config.memory_limit,
        }

    def _digest(self, path: Path) -> str:
        """The digest of a file of an export, which never changes."""
        if path not in self._digests:
            self._digests[path] = digest_of(path)
        return self._digests[path]


def _paths(row: OpRow) -> list[str]:
    """The files that an op needs, relative to its export folder."""
    captured = [source.path for source in row.sources if source.path is not None]
    return list(dict.fromkeys([*([row.module] if row.module else []), *captured, *row.golden]))


def _ready_of(values: dict[str, Any]) -> Ready:
    return Ready(**{**values, "stages": tuple(Stage(stage) for stage in values["stages"])})
