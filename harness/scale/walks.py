"""The walks of a run's models on the workers of its cluster, each a task of its own.

The controller chooses a worker with a free device, hands it a model that it has split, writes what the worker
announces, and takes the files of a worker that does not see the cache folder. A walk that died with its worker is made
again on another one, in a folder of its own: what the first has announced stays valid meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opscope.base import clocks, damage, stored
from opscope.base.digest import file_digest
from opscope.base.stored import FileMark
from opscope.harness.cache import export_folder
from opscope.harness.prepare import argument_files
from opscope.harness.prepare.allowance import Allowance, BudgetSpent, Killed, ModelRefused
from opscope.harness.prepare.make_folder import Event, Making, Unpreparable
from opscope.harness.prepare.model_job import handed_over
from opscope.harness.record.errors import InputError
from opscope.harness.record.signature import shorten
from opscope.harness.scale import cluster_worker, devices, walk_worker
from opscope.harness.scale.blobs import mark
from opscope.harness.scale.connection import PART_BYTES, SMALL_FILE_BYTES, Connection, Slots, bring
from opscope.models.frontends import own_results

MOST_LOST = 3
"""A model's walk has failed after so many workers died, or gave no answer, while they walked it."""

WORKERLESS_SECONDS = 60.0
"""How long a walk waits for a cluster without workers before it is made here."""

MOST_WAIT = 5.0
"""Seconds that a walk which is to end has for it, and one that has ended for its last words."""

MOST_LATE = 60.0
"""Seconds after the end of a model's time at which a worker that says nothing is given up."""

LOOK = 1.0
"""Seconds between two looks at whether a worker is there."""

SMALL_FILES = PART_BYTES // SMALL_FILE_BYTES
"""How many small files of a worker travel in one message at most."""

_PAUSE = 0.1
"""Seconds between two looks at what a walk waits for."""


class _WalkIsLostError(Exception):
    """A worker has given no result."""


class Walks:
    """The walks of one run; `opscope.harness.prepare.make_folder.Elsewhere`. Any thread may ask for one."""

    def __init__(self, address: str, run_id: str, here: int = 1) -> None:
        """`here` is how many models are walked on this machine at once, where no worker can."""
        self._address, self._run_id = address, run_id
        self._here = threading.BoundedSemaphore(here)
        self._devices = devices.of_run(run_id)
        self._lock = threading.RLock()
        """Held by whoever uses the connection."""
        self._connection: Connection | None = None
        self._events: dict[str, queue.SimpleQueue[Event | None]] = {}
        self._unlike: set[str] = set()
        """Workers whose packages would make other goldens."""
        self._blind: set[str] = set()
        """Workers that do not see the cache folder, or cannot write into it."""
        self._processes: dict[str, int] = {}
        """How many processes may walk each model."""
        self._number = 0

    # --- make_folder.Elsewhere

    def walk(self, making: Making, module: str, temporary: Callable[[], Path]) -> bool:
        """Has a model walked on a worker; False if none can. Raises what `make_folder.walked` raises."""
        lost, why, allowance = 0, "", making.allowance
        while lost < MOST_LOST:
            worker, count = self._device(allowance, self._processes.get(making.task.name, 1))
            if not worker:
                return False
            try:
                made = _Walk(self, making, module, temporary(), worker, count).made()
            except _WalkIsLostError as error:
                lost, why = lost + 1, str(error)
                continue
            finally:
                self._devices.release(worker, count)
            if made:
                return True
        raise Unpreparable(f"worker lost at {allowance.step}: {why}, again and again")

    def note(self, event: Event) -> None:
        """Remembers how many processes may walk a model that was split."""
        if event["event"] == "split":
            self._processes[event["model"]] = event["processes"]

    @contextlib.contextmanager
    def here(self, allowance: Allowance) -> Iterator[None]:
        """Waits until there is room on this machine."""
        since = clocks.awake()
        while not self._here.acquire(timeout=_PAUSE):
            allowance.check()
        allowance.pause(clocks.awake() - since)
        try:
            yield
        finally:
            self._here.release()

    def close(self) -> None:
        """Ends all walks and leaves the cluster."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close(walk_worker.leave, self._run_id)

    # --- for one walk

    def _device(self, allowance: Allowance, processes: int) -> tuple[str, int]:
        """A worker with devices that wait for a walk by so many processes at most, and how many these are; empty if no
        worker can walk. The model's time stands still."""
        since, workerless = clocks.awake(), None
        worker, count = "", 0
        try:
            while True:
                allowance.check()
                if allowance.budget_is_spent:
                    raise BudgetSpent(allowance.step)
                slots = self.slots()
                if worker and worker not in slots:
                    self._devices.release(worker, count)
                    worker, count = "", 0
                if worker and self._devices.clear(worker, slots[worker]):
                    return worker, count
                if not worker and slots:
                    if not set(slots) - self._unlike:
                        return "", 0
                    self._devices.walk_seconds = max(self._devices.walk_seconds, allowance.seconds)
                    worker = self._devices.reserve(slots, lambda name: name not in self._unlike) or ""
                    if worker:
                        count = 1
                        count += self._devices.more(worker, slots, processes - 1)
                        continue
                workerless = None if slots else workerless or time.monotonic()
                if workerless is not None and time.monotonic() - workerless > WORKERLESS_SECONDS:
                    return "", 0
                time.sleep(_PAUSE)
        except BaseException:
            if worker:
                self._devices.release(worker, count)
            raise
        finally:
            allowance.pause(clocks.awake() - since)

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """The connection, for the calling thread alone. Raises InputError if there is no cluster."""
        with self._lock:
            if self._connection is None:
                self._connection = Connection(self._address, cluster_worker.sources())
                self._connection.subscribe(walk_worker.WALKS, self._take)
            yield self._connection

    def slots(self) -> Slots:
        """The workers with devices, as of now."""
        with self.connection() as connection:
            return connection.slots()

    def alive(self, worker: str) -> bool:
        """Whether a worker is there."""
        with self.connection() as connection:
            connection.slots()
            return connection.alive(worker)

    def _take(self, event: tuple[float, str]) -> None:
        """Takes what a walk tells; in Dask's thread. It may be of another run."""
        message = json.loads(event[1])
        events = self._events.get(message["walk"])
        if events is not None:
            events.put(message["event"])

    def begin(self) -> tuple[str, queue.SimpleQueue[Event | None]]:
        """A key for a walk, and the queue of what it tells; None in it says that it has ended."""
        with self._lock:
            self._number += 1
            key = f"{walk_worker.prefix(self._run_id)}{self._number}-{time.monotonic_ns()}"
            events = self._events[key] = queue.SimpleQueue()
        return key, events

    def end(self, key: str) -> None:
        """Forgets a walk."""
        self._events.pop(key, None)

    def is_blind(self, worker: str) -> bool:
        """Whether a worker has said that it does not see the cache folder."""
        return worker in self._blind

    def leave_out(self, worker: str, answer: Mapping[str, Any]) -> None:
        """Remembers why a worker has not begun a walk."""
        if "unlike" in answer:
            self._unlike.add(worker)
        elif "blind" in answer:
            self._blind.add(worker)


class _Walk:
    """One try to have one model walked on one worker."""

    def __init__(self, walks: Walks, making: Making, module: str, temporary: Path, worker: str, count: int) -> None:
        """`count` devices of the worker wait for it."""
        self._walks, self._module, self._temporary = walks, module, temporary
        self._task, self._allowance, self._report = making.task, making.allowance, making.report
        self._worker, self._count = worker, count
        assert making.growing is not None
        self._growing = making.growing
        self._begun = False
        self._late: float | None = None
        """Since when the model's time is over."""
        self._apart = walks.is_blind(worker)
        """Whether the files travel."""
        self._has: set[str] = set()
        """Files of the export that have come, where they travel."""
        self._announced: list[str] = []
        """What was announced while files came: theirs then come together."""
        self._key, self._events = walks.begin()

    def made(self) -> bool:
        """Whether the export folder is complete now; False if the worker has not begun for a reason that `Walks` knows
        now. Raises _WalkIsLostError, and what `make_folder.walked` raises."""
        future = None
        try:
            message, files = self._message()
            with self._walks.connection() as connection:
                connection.note(self._worker, files)
                future = connection.submit(
                    walk_worker.walk, (json.dumps(message), files), self._key, self._worker, 1, self._count
                )
            future.add_done_callback(lambda ended: self._events.put(None))
            self._follow()
            return self._ended(self._answer(future))
        finally:
            self._walks.end(self._key)
            self._drop(future)

    # --- what it needs

    def _message(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The task for the worker, and the content of small files that it was not sent."""
        task = self._task
        brought = argument_files.files(task.request.inputs, task.request.weights)
        paths = self._needed()
        message = {
            "walk": self._key,
            "name": task.name,
            "path": task.path,
            "entry": task.entry,
            "exported": self._module,
            "folder": task.folder,
            "request": asdict(task.request),
            "allowance": self._allowance.as_json(),
            "packages": export_folder.sources_digest(),
            "temporary": str(self._temporary),
            "processes": self._count,
            "devices": max(1, self._walks.slots().get(self._worker, 1)),
        }
        if not self._apart:  # a worker that does not see the file of the split makes one itself
            seen = [*paths.values(), *map(Path, brought.values())]
            return message | {"kept": task.kept, "seen": [(str(path), mark(path)) for path in seen]}, {}
        names = {
            option.strip("-"): f"brought/{option.strip('-')}{Path(path).suffix}" for option, path in brought.items()
        }
        paths |= dict(zip(names.values(), map(Path, brought.values()), strict=True))
        if (kept := Path(task.kept)).is_file():
            paths[kept.name] = kept  # its own name, which its digest covers
        digests = {name: file_digest(path) for name, path in paths.items()}
        sent = {"exported": "exported", "kept": kept.name, "files": digests, "brought": names}
        return message | sent, self._sent(paths, digests)

    def _needed(self) -> dict[str, Path]:
        """The files that are split and walked: name below the worker's folder to path here."""
        if not self._module and not self._apart:
            return {"file": Path(self._task.path)}
        folder = Path(self._module) if self._module else handed_over(self._task.kept)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        names = {f"exported/{path.relative_to(folder).as_posix()}": path for path in files}
        left_out = {own_results.FILE, own_results.ARRAYS, stored.DIGESTS}
        return {name: path for name, path in names.items() if name.split("/")[1] not in left_out}

    def _sent(self, paths: Mapping[str, Path], digests: Mapping[str, str]) -> dict[str, bytes]:
        """Ships the large ones of some files; the content of the others."""
        small: dict[str, bytes] = {}
        for name, digest in digests.items():
            with self._walks.connection() as connection:
                if not bring(connection, cluster_worker.keep, self._worker, paths[name], digest, small):
                    raise _WalkIsLostError("its worker died")
            self._allowance.check()
        return small

    # --- while it is under way

    def _follow(self) -> None:
        """Takes what the walk tells until it has ended. Raises _WalkIsLostError."""
        looked = time.monotonic()
        until: float | None = None
        while until is None or time.monotonic() < until:
            try:
                event = self._events.get(timeout=_PAUSE)
            except queue.Empty:
                self._allowance.check()
                if until is None and time.monotonic() - looked > LOOK:
                    looked = time.monotonic()
                    self._look(looked)
                continue
            if event is None:
                until = time.monotonic() + MOST_WAIT
            elif event["event"] == walk_worker.END:
                self._announce()
                return
            else:
                self._allowance.check()
                self._take(event)
            if self._events.empty():
                self._announce()

    def _look(self, now: float) -> None:
        """Raises _WalkIsLostError if no answer is to be expected any more."""
        if not self._walks.alive(self._worker):
            raise _WalkIsLostError("its worker died")
        if self._allowance.left():
            self._late = None
        elif self._late is None:
            self._late = now
        elif now - self._late > MOST_LATE:
            raise _WalkIsLostError(f"no answer for {MOST_LATE:g} s")

    def _take(self, event: Event) -> None:
        """Takes what the child says."""
        self._allowance.note(event)
        if event["event"] == "announce":
            self._announced.append(event["text"])
        elif event["event"] == "damage":
            damage.say(event["line"])
        else:
            self._report(event)

    def _announce(self) -> None:
        """Hands on the announcements of ops that have come, once the files of these are here."""
        texts, self._announced = self._announced, []
        if self._apart:
            values = {path: values for text in texts for path, values in json.loads(text)["files"].items()}
            self._fetch({path: FileMark(*of_file) for path, of_file in values.items()})
        for text in texts:
            if not self._begun:
                self._growing.take(json.dumps({"folder": str(self._temporary)}))
                self._begun = True
            self._growing.take(text)

    def _fetch(self, files: Mapping[str, FileMark]) -> None:
        """Takes files that the worker has made, small ones many at once: a message takes longer than such a file.

        Raises _WalkIsLostError, InputError for a disk that is full here.
        """
        missing = [path for path in files if path not in self._has]
        small = [path for path in missing if files[path].size <= SMALL_FILE_BYTES]
        for start in range(0, len(small), SMALL_FILES):
            paths = small[start : start + SMALL_FILES]
            for path, content in zip(paths, self._asked(walk_worker.small_files, paths), strict=True):
                self._keep(path, files[path], [content])
        for path in missing:
            if path not in self._has:
                self._keep(path, files[path], self._parts(path))

    def _keep(self, path: str, expected: FileMark, content: Iterable[bytes]) -> None:
        """Writes a file that the worker has made. Raises what `_fetch` raises."""
        place = self._temporary / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.with_name(f"{place.name}.part").open("wb") as file:
                for data in content:
                    file.write(data)
            if stored.mark_of(Path(file.name)) != expected:
                raise _WalkIsLostError(f"another content of {path}")
            Path(file.name).replace(place)
        except OSError as error:
            raise export_folder.unwritable(self._temporary.parent, error) from None
        self._has.add(path)

    def _parts(self, path: str) -> Iterator[bytes]:
        """The content of a file that the worker has made. Raises _WalkIsLostError."""
        offset, data = 0, b""
        while offset == 0 or len(data) == PART_BYTES:
            data = self._asked(walk_worker.part, path, offset, PART_BYTES)
            if not data:
                return
            yield data
            offset += len(data)

    def _asked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of the worker says of this walk. Raises _WalkIsLostError."""
        self._allowance.check()
        with self._walks.connection() as connection:
            answer = connection.call_on(self._worker, function, self._key, *arguments)
        if answer is None:
            raise _WalkIsLostError("no files from its worker")
        return answer

    # --- its end

    def _answer(self, future: Any) -> dict[str, Any]:
        """What the walk has returned. Raises _WalkIsLostError."""
        try:
            return json.loads(future.result(timeout=MOST_WAIT))
        except Exception as error:  # noqa: BLE001 - Dask's errors have no common base
            raise _WalkIsLostError(f"{type(error).__name__}: {shorten(str(error), 120)}") from None

    def _ended(self, answer: dict[str, Any]) -> bool:
        """What `made` returns, for a walk's answer."""
        if "made" in answer:
            if self._apart:
                self._complete()
            elif not export_folder.complete(Path(self._task.folder)):
                raise _WalkIsLostError("its export is not here")
            return True
        if "refused" in answer:
            by_model, *words = answer["refused"]
            raise (ModelRefused if by_model else InputError)(*words)
        if "unpreparable" in answer:
            raise Unpreparable(answer["unpreparable"])
        if "spent" in answer:
            raise BudgetSpent(answer["spent"])
        if "killed" in answer:
            raise Killed(answer["killed"])
        if "unlike" in answer or ("blind" in answer and not self._apart):
            self._walks.leave_out(self._worker, answer)
            return False
        if "missing" in answer:
            with self._walks.connection() as connection:
                connection.forget(answer["missing"])
        raise _WalkIsLostError(answer.get("full", f"no export but {', '.join(answer)}"))

    def _complete(self) -> None:
        """Takes what has not come yet of an export that is complete on its worker, and completes it here."""
        digests = json.loads(b"".join(self._parts(stored.DIGESTS)))  # not kept: it is for another folder
        self._fetch({path: FileMark(*values) for path, values in digests["files"].items()})
        try:
            export_folder.publish(self._temporary, Path(self._task.folder))
        except OSError as error:
            raise export_folder.unwritable(self._temporary.parent, error) from None

    def _drop(self, future: Any) -> None:
        """Ends the walk on its worker, if it is under way, so that nothing is written any more."""
        unfinished = None if future is None or future.done() else future
        if unfinished is not None or self._apart:
            with contextlib.suppress(InputError), self._walks.connection() as connection:
                connection.call_on(self._worker, walk_worker.drop, self._key)
        if unfinished is not None:
            with contextlib.suppress(Exception):
                unfinished.result(timeout=MOST_WAIT)
            unfinished.cancel()
