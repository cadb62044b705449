"""`--cluster`: the ops of a run on the workers of a Dask cluster, behind the interface of one lane.

The controller hands batches of ops to workers, sends the files that these neither see nor have, by content, and takes
records as they come. Only bytes and JSON travel, and the names of the functions in `harness/scale/cluster_worker.py`.
The ops of a worker that died run on another. An op with which several workers died has crashed.
"""

from __future__ import annotations

import base64
import json
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opscope.base import stored
from opscope.base.damage import Damaged
from opscope.base.digest import file_digest
from opscope.harness.cache import export_folder
from opscope.harness.lanes import lists
from opscope.harness.lanes.flight import Flight, Ready
from opscope.harness.lanes.lane import LaneConfig, lost_to_damage
from opscope.harness.lanes.protocol import OpsToSend
from opscope.harness.record import artifacts
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext, repro_line
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.signature import shorten
from opscope.harness.record.stages import Stage
from opscope.harness.scale import cluster_worker
from opscope.harness.scale.batches import Batch, Op, Work
from opscope.harness.scale.connection import Connection, Slots, bring
from opscope.harness.scale.devices import AHEAD, of_run

BATCH_BYTES = 8 << 20
"""Bytes of files at which a batch is full."""

MOST_LOST = 3
"""An op counts as crashed after so many workers died while they ran it."""

MOST_FAILED = 4
"""The cluster counts as unusable after so many batches without an answer."""

WORKERLESS_SECONDS = 60.0
"""How long a cluster may be without workers before the run ends (it can be resumed)."""

MOST_PATIENCE = 60.0
"""Longest wait in seconds for the answer of a batch that ended."""

_POLL_SECONDS = 1.0

_LOOK_SECONDS = 0.1
"""Between two looks at which goldens are there, where ops wait for some."""


class ClusterLane:
    """Does what `opscope.harness.lanes.lane.Lane` does, on a cluster; besides `run`, `arrivals` keeps all its devices
    at work."""

    def __init__(self, address: str, config: LaneConfig) -> None:
        self.config = config
        self._address = address
        self._connection: Connection | None = None
        self._ready: Ready | None = None
        self._last_ready: Ready | None = None
        self._arrived: dict[str, tuple[OpTest, Ready]] = {}
        self._lists = lists.Receiver()
        self._digests: dict[Path, str] = {}
        self._folders: dict[str, str] = {}
        """Where the files of ops are that were sent while their export was under construction."""
        self._devices = of_run(config.context.run_id)
        self._work = Work()
        self._news: dict[str, queue.SimpleQueue[Any]] = {}
        """Where the records of a batch go, by its key."""
        self._fresh = False

    # --- the interface of a lane

    def start(self) -> None:
        """Connects, and starts the lanes there. Raises InputError if the cluster does not exist."""
        if self._connection is None:
            self._connection = Connection(self._address, cluster_worker.sources())
            self._connection.subscribe(cluster_worker.RECORDS, self._take_record)
            self._connection.ask(cluster_worker.ready, json.dumps(self._task()))

    def ready(self) -> Ready:
        """What the backend reports on a worker. Raises InputError if it refuses, or no worker has a device."""
        self.start()
        assert self._connection is not None
        if self._ready is None:
            walks = self._devices.walk_seconds if self._devices.walking() else 0.0  # lanes may start behind them
            answer = self._connection.answer(self.config.start_timeout + walks)
            if "input_error" in answer:
                raise InputError(*answer["input_error"])
            self._ready = _ready_of(answer["ready"])
        return self._ready

    @property
    def last_ready(self) -> Ready | None:
        """The report of the child that made the last record."""
        return self._last_ready or self._ready

    @property
    def last_text(self) -> None:
        """Records come as other machines have changed them: their JSON is made here."""

    def has_record(self, row: OpRow) -> bool:
        """Whether the record of an op has arrived already."""
        return row.op_id in self._arrived

    def run(self, row: OpRow, *, attempt: int = 1) -> OpTest:
        """The record of one op: the one that has arrived, or a new one."""
        if row.op_id not in self._arrived:
            others, self._work = self._work, Work()  # a failed op runs again while others are in progress
            try:
                work = self._work
                work.add([Op(row, attempt, self._fresh, folder=self._folders.get(row.op_id, ""))])
                self._fresh = False
                for _ in self._arrivals(work, {row.op_id: attempt}, lambda: True, None):
                    pass
            finally:
                self._work = others
        test, self._last_ready = self._arrived.pop(row.op_id)
        return test

    def fresh(self) -> None:
        """Makes the next op run in a new child, in which no other op has run."""
        self._fresh = True

    def close(self) -> None:
        """Leaves the cluster: what is under way is cancelled, the lanes of this run end."""
        connection, self._connection = self._connection, None
        for key in self._news:
            self._devices.done(key)
        self._work = Work()
        self._news.clear()
        self._folders.clear()
        if connection is not None:
            connection.close(cluster_worker.leave, self._token)

    # --- many at once

    def arrivals(
        self, ops: OpsToSend, attempts: Mapping[str, int], in_time: Callable[[], bool] = lambda: True
    ) -> Iterator[str]:
        """The ids of the ops as their records come, and `run` then has them, or as it is known that they need not be
        sent. None is sent once `in_time` says no.

        Raises InputError if the cluster is lost.
        """
        self._work = Work()
        try:
            yield from self._arrivals(self._work, attempts, in_time, ops)
        except InputError:
            raise
        except Exception as error:  # of Dask, whose errors have no common base
            if not (isinstance(error, OSError) or self._connected().lost()):
                raise
            got = f"{type(error).__name__}: {shorten(str(error), 160)}"
            raise InputError(
                f"--cluster {self._address}", "a scheduler that answers", got, "--resume when it is back"
            ) from error

    def _arrivals(
        self, work: Work, attempts: Mapping[str, int], in_time: Callable[[], bool], ops: OpsToSend | None
    ) -> Iterator[str]:
        self.ready()
        workerless: float | None = None
        while work.batches or not work.news.empty() or ((work.waiting or ops) and in_time()):
            slots = self._connected().slots()
            if work.news.empty():  # records that dead workers sent still count
                yield from self._orphans()
            if ops is not None:
                work.add(self._op(row, folder, attempts) for row, folder in ops.take())
                yield from ops.settled()
            for_ops = self._devices.for_ops(slots)
            if in_time():
                self._devices.ops_wait(bool(work.waiting))
                self._send(for_ops)
            since, idle = time.monotonic(), self._idle(for_ops)
            try:
                news = work.news.get(timeout=_LOOK_SECONDS if ops else _POLL_SECONDS)
            except queue.Empty:
                workerless = None if slots else workerless or time.monotonic()
                if workerless is not None and time.monotonic() - workerless > WORKERLESS_SECONDS:
                    raise InputError(
                        f"--cluster {self._address}",
                        "workers with devices",
                        "no worker any more",
                        "--resume when workers are back",
                    ) from None
                continue
            finally:
                if ops:
                    ops.idle(idle * (time.monotonic() - since))
            if isinstance(news, tuple):
                op, error = news
                yield from self._mended(op, error, ops)
            else:
                yield from self._record(news) if isinstance(news, dict) else self._ended(news, ops)
        self._devices.ops_wait(False)

    def _op(self, row: OpRow, folder: str, attempts: Mapping[str, int]) -> Op:
        """An op that can be sent now."""
        if folder:
            self._folders[row.op_id] = folder
        return Op(row, attempts.get(row.op_id, 1), folder=folder)

    def _idle(self, slots: Slots) -> int:
        """How many devices have nothing to do."""
        busy = self._work.busy()
        return sum(max(0, devices - busy.get(worker, 0)) for worker, devices in slots.items())

    def _connected(self) -> Connection:
        self.start()
        assert self._connection is not None
        return self._connection

    def _send(self, slots: Slots) -> None:
        """Hands batches to workers until each has one more than it has devices for ops."""
        work = self._work
        busy = dict.fromkeys(slots, 0) | work.busy()
        while work.waiting:
            free = [name for name in slots if busy[name] < slots[name] + AHEAD]
            if not free:
                return
            worker = min(free, key=lambda name: (busy[name] / slots[name], name))
            if self._hand(work.take(sum(slots.values())), worker, slots[worker]):
                busy[worker] += 1
            else:
                slots = {name: number for name, number in slots.items() if name != worker}

    def _hand(self, ops: Sequence[Op], worker: str, devices: int) -> bool:
        """Sends ops and what they need to a worker; False if that is gone: they wait again."""
        connection, work = self._connected(), self._work
        entries: list[dict[str, Any]] = []
        small_files: dict[str, bytes] = {}
        sent: list[Op] = []
        for place, op in enumerate(ops):
            try:
                files = self._files(op, worker, small_files)
            except Damaged as error:
                work.news.put((op, error))
                continue
            if files is None:
                work.back([*sent, *ops[place:]])
                return False
            sent.append(op)
            entries.append({"row": op.row.model_dump_json(), "attempt": op.attempt, "fresh": op.fresh, **files})
            if sum(map(len, small_files.values())) > BATCH_BYTES:
                work.back(ops[place + 1 :])
                break
        if not sent:
            return True
        key = f"opscope-{self.config.context.run_id}-{sent[0].row.op_id}-{time.monotonic_ns()}"
        if not self._devices.admit(key, worker, work.busy().get(worker, 0)):
            work.back(sent)  # a walk has a device there since
            return False
        connection.note(worker, small_files)
        task = json.dumps(self._task() | {"batch": key, "ops": entries})
        batch = work.batches[key] = Batch(worker, devices, {op.row.op_id: op for op in sent})
        self._news[key] = work.news
        batch.future = connection.submit(cluster_worker.climb, (task, small_files), key, worker)
        batch.future.add_done_callback(lambda future: self._devices.done(future.key))
        batch.future.add_done_callback(work.news.put)
        return True

    def _files(self, op: Op, worker: str, small_files: dict[str, bytes]) -> dict[str, Any] | None:
        """Where a worker finds the files of an op; None if it is gone. Raises Damaged.

        It is the folder itself (`folder`) where the worker sees that, with what is known of its files as long as they
        are in no complete export, else what it was sent, by content (`files`); the content of small files is added to
        `small_files`.
        """
        while True:
            folder = self._folder(op)
            try:
                return self._files_in(folder, op.row, worker, small_files)
            except (Damaged, OSError) as error:
                if self._folder(op) != folder:  # the export has been completed meanwhile, and so was moved
                    continue
                if isinstance(error, Damaged):
                    raise
                raise Damaged(error.filename or folder, error.strerror or str(error)) from error

    def _folder(self, op: Op) -> Path:
        """Where the files of an op are now."""
        model = op.row.uses[0].model
        folder, final = Path(op.folder or self.config.export_dirs[model]), self.config.final_dirs.get(model)
        if final is not None and folder != Path(final) and not folder.is_dir() and export_folder.complete(Path(final)):
            op.folder = final
            return Path(final)
        return folder

    def _is_growing(self, op: Op) -> bool:
        """Whether the export that an op is of was under construction when its files were asked for."""
        final = self.config.final_dirs.get(op.row.uses[0].model)
        return bool(op.folder and final is not None and Path(op.folder) != Path(final))

    def _files_in(self, folder: Path, row: OpRow, worker: str, small_files: dict[str, bytes]) -> dict[str, Any] | None:
        """What `_files` returns. Raises Damaged, OSError."""
        connection, paths = self._connected(), export_folder.files_of(row)
        if paths and connection.sees(cluster_worker.sees, worker, folder, paths[0]):
            final = self.config.final_dirs.get(row.uses[0].model)
            return {"folder": str(folder), "final": final, "expected": stored.expected(folder, paths)}
        files = {path: self._digest(stored.checked(folder, path)) for path in paths}
        for path, digest in files.items():
            if not bring(connection, cluster_worker.keep, worker, folder / path, digest, small_files):
                return None
        return {"files": files}

    def _orphans(self) -> Iterator[str]:
        """Takes back the ops of workers that died: they wait again, or, after `MOST_LOST` of them, have crashed."""
        work, connection = self._work, self._connected()
        dead = [worker for worker in work.busy() if not connection.alive(worker)]
        for batch, begun in work.orphans(dead):
            batch.future.cancel()
            self._devices.done(batch.future.key)
            self._news.pop(batch.future.key, None)
            if begun is not None:
                begun.lost += 1
                if begun.lost >= MOST_LOST:
                    del batch.ops[begun.row.op_id]
                    yield self._crashed(begun)
            work.back(batch.ops.values())

    def _take_record(self, event: tuple[float, str]) -> None:
        """Takes the record of an op that a worker announced; in Dask's thread. It may be of another run."""
        answer = json.loads(event[1])
        news = self._news.get(answer["batch"])
        if news is not None:
            news.put(answer)

    def _record(self, answer: dict[str, Any]) -> Iterator[str]:
        """Takes the record of an op in."""
        made = self._lists.made(answer["made"])  # also of a record that nobody needs: a list is sent once
        batch = self._work.batches.get(answer["batch"])
        op = None if batch is None else batch.ops.pop(answer["op"], None)
        if batch is None or op is None:
            return
        ready = replace(_ready_of(answer["ready"]), made=made)
        if ready.fingerprint != self.ready().fingerprint:
            expected = f"one backend on all workers ({self.ready().fingerprint})"
            why = InputError(
                f"--cluster {self._address}",
                expected,
                f"{ready.fingerprint} on {batch.worker}",
                "the same versions on all workers",
            )
            self._connected().leave_out(batch.worker, why)
            self._work.back([op])
            return
        test = OpTest.model_validate_json(answer["test"])
        self._keep(op.row.op_id, answer["files"])
        repro = repro_line(test.op_id, self.config.context)
        self._arrived[op.row.op_id] = test.model_copy(update={"repro": repro}), ready
        yield op.row.op_id

    def _ended(self, future: Any, ops: OpsToSend | None) -> Iterator[str]:
        """Takes the end of a batch in, with the record that came with it. Ops that have none wait again."""
        work = self._work
        batch = work.batches.get(future.key)
        if batch is None:
            return
        if batch.ops:
            answer = self._answer(batch)
            if answer is None:
                return  # it died with its worker, and is one of the orphans
            if "input_error" in answer:
                raise InputError(*answer["input_error"])
            if "missing" in answer:
                self._connected().forget(answer["missing"])  # it was cleared away there, or could not be kept
            if "damaged" in answer:
                op, (where, got) = batch.ops.pop(answer["op"]), answer["damaged"]
                folder = self._folder(op)
                if self._is_growing(op):  # what is right here is sent there, if it is sent again
                    self._connected().hide(batch.worker, folder)
                yield from self._mended(op, Damaged(folder / where, got), ops)
            elif "test" in answer:
                yield from self._record(answer)
            elif answer.get("killed"):
                yield self._crashed(batch.ops.pop(next(iter(batch.ops))))
            elif len(batch.ops) == batch.size:
                first = next(iter(batch.ops.values()))
                first.failed += 1
                if first.failed >= MOST_FAILED:
                    got = answer.get("error", "no room for the files of an op" if "missing" in answer else "none")
                    raise InputError(
                        f"--cluster {self._address}", "an answer from a worker", got, "the log of the worker"
                    )
        del work.batches[future.key], self._news[future.key]
        work.back(batch.ops.values())

    def _mended(self, op: Op, error: Damaged, ops: OpsToSend | None) -> Iterator[str]:
        """Has an op with a damaged file wait again once its model is prepared again; its id if that cannot be done.

        One whose export was under construction first waits for what has become of that.
        """
        if self._is_growing(op) and ops is not None and ops.back(op.row.op_id):
            return
        try:
            if op.mended or self.config.mend is None:
                raise error
            op.row = self.config.mend(op.row, error)
        except Damaged as final:
            test = lost_to_damage(op.row, self.config.context, final, op.attempt)
            self._arrived[op.row.op_id] = test, self.ready()
            yield op.row.op_id
            return
        op.mended, op.folder = True, ""
        self._folders.pop(op.row.op_id, None)
        folder = Path(self.config.export_dirs[op.row.uses[0].model])
        self._digests = {path: old for path, old in self._digests.items() if not path.is_relative_to(folder)}
        self._work.back([op])

    def _answer(self, batch: Batch) -> dict[str, Any] | None:
        """What a batch ended with, or the `error` that Dask has in its place; None if that died with its worker."""
        connection, patience = self._connected(), _POLL_SECONDS
        while True:
            try:
                return json.loads(batch.future.result(timeout=patience))
            except TimeoutError:  # the files of an op may be large
                connection.slots()
                if not connection.alive(batch.worker):
                    return None
                if patience > MOST_PATIENCE:
                    return {"error": f"nothing for {patience:g} s"}
                patience *= 2
            except Exception as error:  # noqa: BLE001 - Dask's errors have no common base
                kind = type(error).__name__
                return {"error": f"{kind}: {error}", "killed": kind == "KilledWorker"}

    def _crashed(self, op: Op) -> str:
        """Notes that an op has crashed with its workers; its id."""
        self._arrived[op.row.op_id] = self._lost(op), self.ready()
        return op.row.op_id

    def _lost(self, op: Op) -> OpTest:
        """The record of an op whose workers died, one after another."""
        ready = self.ready()
        context: RunContext = replace(self.config.context, card_type=ready.card_type)
        flight = Flight(op.row, context, ready, op.attempt)
        return flight.crashed("worker lost", "its worker died, again and again", "(it died with its worker)")

    def _keep(self, op_id: str, files: Mapping[str, str]) -> None:
        """Writes what an op left into the run folder; a full disk must not turn one verdict into another."""
        for name, content in files.items():
            artifacts.write(self.config.context.run_dir, op_id, name, base64.b64decode(content))

    @property
    def _token(self) -> str:
        """What names this lane's sweep on workers: the run and, as a run may have several, the backend."""
        return cluster_worker.token(self.config.context.run_id, self.config.context.backend)

    def _task(self) -> dict[str, Any]:
        """The parts that every message has."""
        config = self.config
        return {
            "token": self._token,
            "context": {**config.context.as_json(), "run_dir": ""},
            "op_timeout": config.op_timeout,
            "op_memory": config.memory_limit,
        }

    def _digest(self, path: Path) -> str:
        """The digest of a file of an export, which never changes."""
        if path not in self._digests:
            self._digests[path] = file_digest(path)
        return self._digests[path]


def _ready_of(values: dict[str, Any]) -> Ready:
    return Ready(**{**values, "stages": tuple(Stage(stage) for stage in values["stages"])})
