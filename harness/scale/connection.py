"""The only module that uses Dask's client: connecting, which workers have devices, sending files and ops.

A worker's devices are its resource `device` (`dask worker tcp://... --resources device=1`).
"""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from opscope.base import damage
from opscope.base.installing import install_command
from opscope.base.visible_text import cut
from opscope.harness.record.errors import InputError
from opscope.harness.record.signature import shorten
from opscope.harness.scale.blobs import mark

RESOURCE = "device"
SMALL_FILE_BYTES = 1 << 20
"""A file of at most this size travels with what needs it; larger ones before that, in parts."""
PART_BYTES = 16 << 20
"""Bytes of a file that travel in one message."""

CONNECT_SECONDS = 10
WORKER_SECONDS = 30.0
"""Longest wait for the first worker with a device."""

FRESH_SECONDS = 0.5
"""How long the scheduler's list of workers is reused."""

Slots = dict[str, int]
"""Worker address to the ops that it can run at once: the least of its devices and its threads."""


class Connection:
    """A client of one scheduler. Its methods raise InputError if the cluster cannot be used."""

    def __init__(self, address: str, sources: str) -> None:
        self._where = f"--cluster {address}"
        try:
            from distributed import Client
        except ImportError:
            raise InputError(
                "--cluster", "the package distributed", "no such package", install_command("cluster")
            ) from None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other versions on the other side: what counts is compared below
            try:
                self._client: Any = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
            except (OSError, ValueError, ImportError) as error:
                got = shorten(str(error), 160)
                raise InputError(
                    self._where, "a Dask scheduler at that address", got, "starting `dask scheduler` there"
                ) from None
        self._sources = sources
        self._slots: tuple[float, Slots] = (0.0, {})
        self._same_code: set[str] = set()
        self._other_code: dict[str, InputError] = {}
        """Workers that are left out, with the reason."""
        self._alive: frozenset[str] = frozenset()
        self._shipped: dict[str, set[str]] = {}
        self._sees_folder: dict[tuple[str, Path], bool] = {}
        self._answers: list[Any] = []
        try:
            self._await_workers()
        except BaseException:
            self._client.close()
            raise

    def _await_workers(self) -> None:
        """Waits for the first worker that has a device and runs the same opscope."""
        deadline = time.monotonic() + WORKER_SECONDS
        while not self.slots():
            if self._other_code:
                raise next(iter(self._other_code.values()))
            if time.monotonic() > deadline:
                workers = self._workers()
                got = f"{len(workers)} workers without one" if workers else "no worker"
                hint = f"dask worker {self._where.partition(' ')[2]} --resources {RESOURCE}=1"
                raise InputError(self._where, f"workers with a resource `{RESOURCE}`", got, hint)
            time.sleep(0.2)

    def slots(self) -> Slots:
        """The workers that have devices, as of now."""
        moment, slots = self._slots
        if time.monotonic() - moment < FRESH_SECONDS:
            return dict(slots)
        workers = self._workers()
        slots = {}
        for address, details in workers.items():
            number = min(int(details.get("resources", {}).get(RESOURCE, 0)), int(details.get("nthreads", 1)))
            if number > 0 and self._runs_same_code(address):
                slots[address] = number
        self._alive = frozenset(workers)
        for lost_worker in set(self._shipped) - set(workers):
            del self._shipped[lost_worker]
        self._slots = time.monotonic(), slots
        return dict(slots)

    def _workers(self) -> dict[str, Any]:
        """What the scheduler knows of its workers; nothing while it does not answer."""
        return self._client.scheduler_info().get("workers", {})

    def leave_out(self, worker: str, why: InputError) -> None:
        """Sends a worker nothing any more: its records would not agree with those of the others."""
        if worker not in self._other_code:
            self._other_code[worker] = why
            damage.say(f"{worker} is left out: {why}")
        self._slots = (0.0, {})

    def lost(self) -> bool:
        """Whether Dask has given the scheduler up: it answers no more, and whatever is asked of it raises."""
        return self._client.status in ("closing", "closed")

    def alive(self, worker: str) -> bool:
        """Whether a worker was there when the scheduler was last asked."""
        return worker in self._alive

    def _runs_same_code(self, worker: str) -> bool:
        """Whether a worker runs the same code. One that does not is left out, as its records would not agree."""
        from opscope.harness.scale import cluster_worker

        if worker in self._same_code or worker in self._other_code:
            return worker not in self._other_code
        try:
            answer = self._client.run(cluster_worker.hello, workers=[worker])[worker]
        except Exception as error:  # noqa: BLE001 - whatever unpickling a name there raises
            if isinstance(error, OSError):
                return False  # it is gone already
            got = f"{worker}, which has none ({type(error).__name__}: {cut(str(error), 80)})"
            why = InputError(self._where, "workers with opscope", got, "installing this version of opscope there")
        else:
            if json.loads(answer)["sources"] == self._sources:
                self._same_code.add(worker)
                return True
            why = InputError(
                self._where,
                "the same opscope on every worker",
                f"a different one on {worker}",
                "installing the same revision there",
            )
        self.leave_out(worker, why)
        return False

    def ask(self, function: Callable[[str], str], message: str) -> None:
        """Asks each device one question; `answer` has the first answer."""
        self._answers = [
            self._client.submit(function, message, pure=False, workers=[worker], resources={RESOURCE: 1})
            for worker, devices in self.slots().items()
            for _ in range(devices)
        ]

    def answer(self, seconds: float) -> dict[str, Any]:
        """The first answer to what was asked, once a worker has one."""
        from distributed import as_completed

        got = "none"
        try:
            for future in as_completed(self._answers, loop=self._client.loop, timeout=seconds):
                try:
                    return json.loads(future.result())
                except Exception as error:  # noqa: BLE001 - Dask's errors have no common base
                    got = f"{type(error).__name__}: {shorten(str(error), 120)}"
        except TimeoutError:
            got = f"none within {seconds:g} s"
        raise InputError(self._where, "an answer from a worker", got, "the log of the worker")

    def subscribe(self, topic: str, handler: Callable[[tuple[float, str]], None]) -> None:
        """Calls `handler`, in Dask's thread, for each event (moment, text) that a worker logs under a topic."""
        self._client.subscribe_topic(topic, handler)

    def submit(
        self,
        function: Callable[[str, dict[str, bytes]], str],
        task: tuple[str, dict[str, bytes]],
        key: str,
        worker: str,
        priority: int = 0,
        devices: int = 1,
    ) -> Any:
        """A future of a function's answer to a message and files: on `worker`, on so many of its devices; it never
        comes if that one dies."""
        return self._client.submit(
            function,
            *task,
            key=key,
            pure=False,
            workers=[worker],
            resources={RESOURCE: devices},
            priority=priority,
        )

    def call_on(self, worker: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function returns on a worker, without a device; None if it raises there, or the worker is gone."""
        try:
            self.slots()
            if not self.alive(worker):
                return None  # to ask it would take as long as a connection may take
            return self._client.run(function, *arguments, workers=[worker])[worker]
        except Exception:  # noqa: BLE001 - Dask's errors have no common base
            return None

    def sees(self, function: Callable[[str, str], str], worker: str, folder: Path, name: str) -> bool:
        """Whether a worker sees a folder, a file of which is `name`, at the place where it lies here."""
        if (worker, folder) not in self._sees_folder:
            try:
                file = folder / name
                answer = self._client.run(function, str(file), mark(file), workers=[worker])[worker]
            except Exception:  # noqa: BLE001 - Dask's errors have no common base
                return False  # it is gone
            self._sees_folder[worker, folder] = bool(answer)
        return self._sees_folder[worker, folder]

    def hide(self, worker: str, folder: Path) -> None:
        """Notes that a worker does not see a folder as it is here."""
        self._sees_folder[worker, folder] = False

    def has(self, worker: str, digest: str) -> bool:
        """Whether a worker was sent a file."""
        return digest in self._shipped.get(worker, ())

    def note(self, worker: str, digests: Iterable[str]) -> None:
        """Notes that a worker is sent files."""
        self._shipped.setdefault(worker, set()).update(digests)

    def ship(self, keep: Callable[..., str], worker: str, path: Path, digest: str) -> bool:
        """Sends a file to a worker, in parts; False if the worker is gone."""
        total, offset = path.stat().st_size, 0
        with path.open("rb") as file:
            while offset < total or offset == 0:
                data = file.read(PART_BYTES)
                try:
                    refused = self._client.run(keep, digest, offset, total, data, workers=[worker])[worker]
                except (OSError, KeyError, ValueError):
                    self._shipped.pop(worker, None)
                    self._slots = (0.0, {})
                    return False
                if refused:
                    raise InputError(self._where, f"{worker} to keep {path.name}", refused, "freeing space on its disk")
                offset += len(data)
                if not data:
                    break
        self.note(worker, [digest])
        return True

    def forget(self, digests: Iterable[str]) -> None:
        """Notes that a worker did not have these: they are sent again."""
        for digests_of_worker in self._shipped.values():
            digests_of_worker.difference_update(digests)

    def close(self, leave: Callable[[str], str], token: str) -> None:
        """Ends the lanes on all workers and the connection."""
        with contextlib.suppress(Exception):  # a cluster that is gone has no lanes
            self._client.run(leave, token, on_error="ignore")
        self._client.close()


def bring(
    connection: Connection, keep: Callable[..., str], worker: str, path: Path, digest: str, small: dict[str, bytes]
) -> bool:
    """Has a worker get a file that it was not sent: a large one now, a small one with what travels next, as its content
    is in `small` then. False if the worker is gone. Raises OSError."""
    if digest in small or connection.has(worker, digest):
        return True
    if path.stat().st_size <= SMALL_FILE_BYTES:
        small[digest] = path.read_bytes()
        return True
    return connection.ship(keep, worker, path, digest)
