"""What runs on a Dask worker for the walk of a split model: a child with the model's limits, which evaluates it.

As in `cluster_worker.py`, only bytes, JSON and names of functions travel. What the child announces is published under
`WALKS` (`walk`, `event`); the controller writes it. The files of a walk are in the controller's cache folder where this
worker sees that, else in a folder of the worker, from which the controller takes them.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from opscope.harness.cache import export_folder
from opscope.harness.prepare.allowance import Allowance, BudgetSpent, Killed, ModelRefused
from opscope.harness.prepare.make_folder import CACHE, Making, Unpreparable, walked
from opscope.harness.prepare.preparation import Task, request_of
from opscope.harness.prepare.turn import Stopped
from opscope.harness.record.errors import InputError
from opscope.harness.scale.blobs import Blobs, is_seen
from opscope.harness.scale.connection import SMALL_FILE_BYTES

WALKS = "opscope-walks"
"""Dask's topic for what is told of walks."""

END = "end"
"""The last event of a walk, after which its result comes."""

Json = dict[str, Any]


def walk(message: str, files: dict[str, bytes]) -> str:
    """Walks one model. JSON: `made`, or one of `unlike` (other packages would make other goldens), `blind` (the files
    are not seen here), `missing` (digests of files that were not sent), `refused` (whether by the model; an
    InputError's parts), `unpreparable`, `spent`, `stopped`."""
    from distributed import get_worker

    worker, task = get_worker(), json.loads(message)
    state, key = _walks(worker), task["walk"]
    for digest, data in files.items():
        state.blobs.keep(digest, 0, len(data), data)

    def wanted() -> bool:
        known = worker.state.tasks.get(key)
        return known is not None and known.state != "cancelled"  # as when its controller was killed

    def tell(event: Json) -> None:
        worker.log_event(WALKS, json.dumps({"walk": key, "event": event}))

    answer = state.walk(task, tell, wanted)
    tell({"event": END})
    return json.dumps(answer)


def part(key: str, path: str, offset: int, size: int, dask_worker: Any = None) -> bytes:
    """Some bytes of a file that a walk has made here. Raises OSError. Dask fills in `dask_worker`."""
    return _walks(dask_worker).part(key, path, offset, size)


def small_files(key: str, paths: Sequence[str], dask_worker: Any = None) -> list[bytes]:
    """The content of files that a walk has made here, none of which is large. Raises OSError."""
    walks = _walks(dask_worker)
    return [walks.part(key, path, 0, SMALL_FILE_BYTES) for path in paths]


def drop(key: str, dask_worker: Any = None) -> str:
    """Ends a walk, if it is under way, and removes what it has made here."""
    _walks(dask_worker).drop(key)
    return ""


def leave(token: str, dask_worker: Any = None) -> str:
    """Ends the walks of a run."""
    _walks(dask_worker).leave(token)
    return ""


class Walks:
    """The walks of one worker process."""

    def __init__(self, folder: Path, blobs: Blobs) -> None:
        self._folder, self.blobs, self._lock = folder, blobs, threading.Lock()
        self._stops: dict[str, threading.Event] = {}
        self._made: dict[str, Path] = {}
        """Folder of what each walk makes here."""
        self._wanted: dict[str, Callable[[], bool]] = {}
        """Whether somebody still waits for it, or takes it."""

    def walk(self, task: Json, tell: Callable[[Json], None], wanted: Callable[[], bool] = lambda: True) -> Json:
        """What `walk` returns; `tell` gets the child's events, and the walk ends once it is not `wanted`."""
        self._sweep()
        if task["packages"] != _packages():
            return {"unlike": True}
        key = task["walk"]
        stop = self._stops[key] = threading.Event()

        def stopped() -> bool:
            return stop.is_set() or not wanted()

        try:
            if "seen" in task:
                return self._walked(task, task["exported"], Path(task["temporary"]), task["folder"], tell, stopped)
            self._wanted[key] = wanted
            answer = self._walked_apart(task, tell, stopped)
        finally:
            with self._lock:
                self._stops.pop(key, None)
        if "made" not in answer:
            self.drop(key)
        return answer

    def _sweep(self) -> None:
        """Removes what walks have made whose controller was killed: it could not call `drop`."""
        for key in list(self._made):
            if key not in self._stops and not self._wanted.get(key, lambda: False)():
                self.drop(key)

    def _walked_apart(self, task: Json, tell: Callable[[Json], None], stopped: Callable[[], bool]) -> Json:
        """Walks a model below a folder of this worker, from files that were sent."""
        digests = list(task["files"].values())
        if missing := [digest for digest in digests if not self.blobs.has(digest)]:
            return {"missing": missing}
        own = Path(tempfile.mkdtemp(prefix="walk-", dir=self._folder))
        with self._lock:
            self._made[task["walk"]] = own
        try:
            for path, digest in task["files"].items():
                self.blobs.place(digest, own / "sent", path)
        except FileNotFoundError:
            return {"missing": digests}  # cleared away a moment ago
        (own / "making").mkdir()
        request = {
            **task["request"],
            **{name: str(own / "sent" / path) for name, path in task["brought"].items()},
            "cache_dir": str(self._folder / "cache"),
        }
        folder = own / "made" / Path(task["folder"]).name
        folder.parent.mkdir()
        exported, kept = (str(own / "sent" / task[name]) for name in ("exported", "kept"))
        order = {**task, "request": request, "kept": kept}
        return self._walked(order, exported, own / "making", str(folder), tell, stopped)

    def _walked(
        self,
        task: Json,
        exported: str,
        temporary: Path,
        folder: str,
        tell: Callable[[Json], None],
        stopped: Callable[[], bool],
    ) -> Json:
        if not all(is_seen(Path(path), expected) for path, expected in task.get("seen", ())):
            return {"blind": True}
        if not (os.access(temporary, os.W_OK) and os.access(Path(folder).parent, os.W_OK)):
            return {"blind": True}

        def check() -> None:
            if stopped():
                raise Stopped

        request = request_of(task["request"])
        order = Task(
            task["name"],
            task["path"],
            None,
            "",
            folder,
            request,
            entry=task["entry"],
            kept=task["kept"],
        )
        slots = (str(self._folder / f"slots-{task['walk']}"), task["processes"]) if task["processes"] > 1 else None
        allowance = Allowance.from_json(task["allowance"], request.memory, check, slots)
        try:
            walked(Making(order, allowance, tell, task["devices"]), exported, temporary, task["folder"])
        except ModelRefused as error:
            return {"refused": [True, error.where, error.expected, error.got, error.hint]}
        except InputError as error:
            own = "seen" not in task and error.where == CACHE
            return (
                {"full": str(error)}
                if own
                else {"refused": [False, error.where, error.expected, error.got, error.hint]}
            )
        except Unpreparable as error:
            return {"unpreparable": str(error)}
        except BudgetSpent as error:
            return {"spent": str(error)}
        except Killed as error:
            return {"killed": str(error)}
        except Stopped:
            return {"stopped": True}
        finally:
            if slots is not None:
                Path(slots[0]).unlink(missing_ok=True)
        return {"made": True}

    def part(self, key: str, path: str, offset: int, size: int) -> bytes:
        """What `part` returns: the file lies in the folder that the walk fills, or in the complete one."""
        own = self._made[key]
        for folder in (own / "making", *(own / "made").glob("*")):
            try:
                with (folder / path).open("rb") as file:
                    file.seek(offset)
                    return file.read(size)
            except FileNotFoundError:
                continue
        raise FileNotFoundError(path)

    def drop(self, key: str) -> None:
        """What `drop` does."""
        with self._lock:
            stop, own = self._stops.get(key), self._made.pop(key, None)
            self._wanted.pop(key, None)
        if stop is not None:
            stop.set()
        if own is not None:  # not on Dask's thread: it may be large
            threading.Thread(target=shutil.rmtree, args=(own, True), daemon=True).start()

    def leave(self, token: str) -> None:
        """What `leave` does."""
        for key in [key for key in (*self._stops, *self._made) if key.startswith(prefix(token))]:
            self.drop(key)


def prefix(token: str) -> str:
    """The beginning of the keys of all walks of a run."""
    return f"opscope-walk-{token}-"


@cache
def _packages() -> str:
    return export_folder.sources_digest()


def _walks(worker: Any) -> Walks:
    """The walks of a worker."""
    return _state(str(worker.local_directory))


@cache
def _state(scratch: str) -> Walks:
    """The state that belongs to a worker's own scratch folder, which Dask removes with it."""
    from opscope.harness.scale import cluster_worker

    folder = Path(scratch) / "opscope"
    folder.mkdir(parents=True, exist_ok=True)
    return Walks(folder, cluster_worker.blobs_of(scratch))
