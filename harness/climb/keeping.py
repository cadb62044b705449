"""Writes the verdicts that a run keeps: here and at once, or in a process of its own, so that no lane waits for it.

What that process has not written when it or the run is killed is not kept: these ops run once more in the next run.
"""

from __future__ import annotations

import base64
import contextlib
import os
import queue
import threading
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol

from opscope.base import damage, regular_file, stored
from opscope.base.children.ending import Cause, ChildEnded, Deadline
from opscope.base.inner_path import inside
from opscope.harness.cache import made_of
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.record import artifacts, explanation
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import OpTest

if TYPE_CHECKING:
    from opscope.base.children.child import Child
    from opscope.base.children.inside import Parent

FOLDER = "results"
"""The subfolder of the cache folder."""

ARTIFACT_BYTES = 1 << 20
"""A verdict with a longer diagnostic is not kept; the run folder has the diagnostic."""

IR_BYTES = 1 << 25
"""The IR of an op that is larger is not kept; with --keep-ir the op runs again."""

_GATHERING = 0.1
"""Seconds in which verdicts are gathered before the process is sent them."""

_STARTS = 2
"""So often some verdicts are sent, each time to a new process, where something ends it."""


Lists = Callable[[], list[str] | None]
"""Gives the names of the lists that a verdict rests on; None if it is not to be kept."""


class Keeping(Protocol):
    """Where verdicts go that are to be kept."""

    def keep(self, key: str, test: OpTest, entry: dict[str, Any], lists: Lists, text: str = "") -> None:
        """Keeps a verdict under a key. `entry` is what is stored beside it, without the names of its lists; `text` is
        the record's JSON, where that is known."""
        ...

    def drop(self, run_id: str, backend: str) -> None:
        """Removes all verdicts that a run has kept of a backend (its label), also those that are not yet written."""
        ...


class AtOnce:
    """Writes verdicts here."""

    def __init__(self, cache_dir: Path, run_dir: Path) -> None:
        self._store, self._cache_dir, self._run_dir = JsonStore(cache_dir / FOLDER), cache_dir, run_dir

    def keep(self, key: str, test: OpTest, entry: dict[str, Any], lists: Lists, text: str = "") -> None:
        """Writes a verdict, where it has lists."""
        if (names := lists()) is not None:
            self.write(key, test, {**entry, "lists": names})

    def write(self, key: str, test: OpTest, entry: dict[str, Any]) -> None:
        """Writes a verdict with its diagnostic, unless that is too long or cannot be read, before those of other
        lists."""
        diagnostic, files = "", {}
        if test.artifact is not None:
            try:
                path = inside(self._run_dir, test.artifact)
                if path.stat().st_size > ARTIFACT_BYTES:
                    return
                diagnostic = path.read_text(encoding="utf-8")
                files = self._files(test)
            except (OSError, UnicodeDecodeError):
                return
        entry = {"test": test.model_dump(mode="json"), "diagnostic": diagnostic, **entry}
        if files:
            entry["files"] = files
        ir = self._ir(test, every="all_ir" in entry)
        if ir:
            entry["ir"] = ir
        if "all_ir" in entry:
            entry["all_ir"] = ir is not None
        earlier = (self._store.get(key) or {}).get("results", ())
        others = [each for each in earlier if each.get("lists") != entry["lists"]][: made_of.MOST - 1]
        self._store.put(key, {"results": [entry, *others]})

    def drop(self, run_id: str, backend: str) -> None:
        """Removes all that a run has kept of a backend."""
        drop(self._cache_dir, run_id, backend, 0.0)

    def _files(self, test: OpTest) -> dict[str, str]:
        """The files of an explanation but its text, in base64; a device's result that is too large stays in the run.

        Raises OSError.
        """
        folder = explanation.folder_of(test)
        return {} if folder is None else self._contents(folder, but=explanation.TEXT)

    def _ir(self, test: OpTest, every: bool) -> dict[str, str] | None:
        """The IR of a failed op, or of `every` op, oldest file first, in base64 of zlib's bytes; None if it cannot be
        read, or is too large."""
        if test.right and not every:
            return {}
        folder = PurePath(artifacts.ARTIFACT_DIR, test.op_id, artifacts.ir_folder(backend_label(test.backend)))
        try:
            files = [inside(self._run_dir, folder / name) for name in os.listdir(self._run_dir / folder)]  # noqa: PTH208
            files.sort(key=lambda file: (file.stat().st_mtime_ns, file.name))
            if sum(file.stat().st_size for file in files) > IR_BYTES:
                return None
            whole = {file.name: zlib.compress(regular_file.read_bytes(file), 1) for file in files}
            return {name: base64.b64encode(content).decode() for name, content in whole.items()}
        except FileNotFoundError:
            return {}
        except OSError:
            return None

    def _contents(self, folder: PurePath, but: str = "") -> dict[str, str]:
        """The files of a folder of the run, in base64, as long as there is room. Raises OSError."""
        files: dict[str, str] = {}
        size = 0
        for name in sorted(os.listdir(self._run_dir / folder)):  # noqa: PTH208
            path = inside(self._run_dir, folder / name)
            if name != but and size + path.stat().st_size <= ARTIFACT_BYTES:
                content = regular_file.read_bytes(path)
                files[name], size = base64.b64encode(content).decode(), size + len(content)
        return files


Order = Callable[[], list[Any] | None]
"""What the process is to do: keep a verdict (its key, its record, its entry) or drop those of a run (its id, the
backend's label); None if there is nothing to do after all."""


class Apart:
    """Has a process write verdicts (`serve`), for all lanes of a run; it starts with the first. Safe for threads."""

    def __init__(self, cache_dir: Path, run_dir: Path) -> None:
        self._task = {"cache_dir": str(cache_dir.absolute()), "run_dir": str(run_dir.absolute())}
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._lock, self._ends = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._child: Child | None = None

    def keep(self, key: str, test: OpTest, entry: dict[str, Any], lists: Lists, text: str = "") -> None:
        """Has a verdict written soon. Its lists are asked for on another thread: they take long to make."""
        self._order(lambda: self._to_keep(key, test, entry, lists, text))

    @staticmethod
    def _to_keep(key: str, test: OpTest, entry: dict[str, Any], lists: Lists, text: str) -> list[Any] | None:
        names = lists()
        return None if names is None else [key, text or test.model_dump_json(), {**entry, "lists": names}]

    def drop(self, run_id: str, backend: str) -> None:
        """Has all removed that a run has kept of a backend, once what was ordered before is written."""
        self._order(lambda: [run_id, backend])

    def close(self) -> None:
        """Waits until all is written. Raises the exception that has kept the thread or the process from it."""
        with self._lock:
            thread, self._thread = self._thread, None
        self._ends.set()
        if thread is not None:
            self._orders.put(None)
            thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _order(self, order: Order) -> None:
        self._orders.put(order)
        with self._lock:
            if self._thread is None and not self._ends.is_set():
                # The process is started by this thread, with which it would die, and not by a lane's.
                self._thread = threading.Thread(target=self._work, name="opscope cached verdicts", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        """Sends what is ordered until the end of the run."""
        try:
            go_on = True
            while go_on:
                orders = [self._orders.get()]
                self._ends.wait(_GATHERING)
                while not self._orders.empty():
                    orders.append(self._orders.get())
                go_on = None not in orders
                words = [order() for order in orders if order is not None]
                self._send([each for each in words if each is not None])
        except BaseException as error:  # noqa: BLE001 - raised again by `close`
            self._error = error
        finally:
            self._close()

    def _send(self, orders: list[list[Any]]) -> None:
        """Has the process do what is ordered. Raises ChildEnded with an exception that it has raised."""
        from opscope.base.children.child import Child  # a run that keeps nothing starts none

        for _ in range(_STARTS if orders else 0):
            try:
                if self._child is None:
                    self._child = Child(f"{__name__}:serve")
                    self._child.send(self._task)
                self._child.send({"orders": orders})
                while "said" in (message := self._child.receive(Deadline(None))):
                    damage.say(message["said"])
                return
            except ChildEnded as error:
                if error.ending.cause is Cause.RAISED:
                    raise
            except OSError:  # no process can be started just now
                pass
            self._close()

    def _close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()

    @property
    def pid(self) -> int:
        """The number of the process; 0 if there is none."""
        return 0 if self._child is None else self._child.pid


def serve(parent: Parent) -> None:
    """The process: does what is ordered, until its parent closes the connection."""
    task = parent.task()
    damage.show_by(lambda line: parent.send({"said": line}))
    here = AtOnce(Path(task["cache_dir"]), Path(task["run_dir"]))
    while (message := parent.receive()) is not None:
        for first, second, *entry in message["orders"]:
            if entry:
                here.write(first, OpTest.model_validate_json(second), *entry)
            else:
                here.drop(first, second)
        parent.send({})


def drop(cache_dir: Path, run_id: str, backend: str, since: float) -> int:
    """Removes the verdicts that a run has kept of a backend (its label) since a moment; returns how many there were."""
    mine = run_id, backend
    return drop_where(cache_dir, lambda each: (each["test"]["run_id"], each["test"]["backend"]) == mine, since)


def drop_where(cache_dir: Path, goes: Callable[[Mapping[str, Any]], bool], since: float = 0.0) -> int:
    """Removes kept verdicts, of those written since a moment; returns how many."""
    dropped = 0
    for path in (cache_dir / FOLDER).glob("*/*.json"):
        with contextlib.suppress(OSError, damage.Damaged, KeyError, TypeError):
            if path.stat().st_mtime < since:
                continue
            results = stored.read_json(path)["results"]
            mine = [each for each in results if goes(each)]
            if mine:
                rest = [each for each in results if each not in mine]
                if rest:
                    stored.write_json(path, {"results": rest})
                else:
                    path.unlink()
                dropped += 1
    return dropped
