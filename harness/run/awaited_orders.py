"""xdist workers start while the models are prepared: they wait for their orders, a file that the controller writes.

A worker takes as long to start as a small model to be prepared, and a lane's backend as long again. So the controller
starts its workers first. While a model is being made, whose ops will have to run, it gets the backends ready once, in
the process of which its children are forks, and lends each worker a fork of that process.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import atomic_write
from opscope.base.children import forked
from opscope.base.children.ending import ChildEnded, Deadline
from opscope.base.children.temporary_folder import TemporaryFolder
from opscope.harness.run import server_ahead

if TYPE_CHECKING:
    from opscope.base.children.child import Child

ORDERS = "orders.json"
"""File of the controller: what the workers shall do, or that there is nothing."""
LENT = "lent.json"
"""File of the controller, once a model is being made: under which settings it has lent each worker a server."""
SOCKETS = "server-"
"""How the addresses of these servers begin, in the same folder."""
SECONDS = 60.0
"""How long a server may take until it listens."""

PAUSE, MOST_PAUSE, SHARE = 0.01, 0.25, 1 / 50
"""Seconds between two looks at the files, least and most; between them, this share of what a worker has waited so far.
64 workers that look a hundred times a second take two thirds of a core from what they wait for."""


def can_wait(specs: Sequence[Any]) -> bool:
    """Whether all of xdist's workers are children of this process, which see its files and its end."""
    return all(spec.popen and not (spec.via or spec.chdir) for spec in specs)


class NoOrders(Exception):
    """There will be no orders: the controller has refused the run, or has ended."""


class AwaitedOrders:
    """The controller's side: where its workers find their orders."""

    def __init__(self, backends: Sequence[str]) -> None:
        self._backends = list(backends)
        self._folder = TemporaryFolder("orders")
        self._given, self._making = False, False
        self._workers: list[str] = []
        self._servers: list[Child] = []

    def place(self, worker: str) -> dict[str, Any]:
        """What a worker gets when it starts; it can be JSON."""
        self._workers.append(worker)
        return {"folder": self._folder.name, "controller": os.getpid(), "worker": worker, "backends": self._backends}

    def making(self) -> None:
        """Lends each worker a server whose backends are ready, once: lanes will be needed."""
        if self._making:
            return
        from opscope.base.children.child import Child  # a run without workers has no use for it

        self._making = True
        server_ahead.for_lanes(self._backends)
        for worker in self._workers:
            server = Child("opscope.base.children.fork_server:serve_another")
            self._servers.append(server)
            server.send({"address": str(Path(self._folder.name, f"{SOCKETS}{worker}"))})
        with contextlib.suppress(ChildEnded):  # the worker starts one of its own
            for server in self._servers:
                server.receive(Deadline(SECONDS))
        lent = {"settings": forked.settings_text()}
        atomic_write.write_whole(Path(self._folder.name, LENT), json.dumps(lent))

    def give(self, orders: Mapping[str, Any] | None) -> None:
        """Gives the workers their orders, once; None says that there are none. Raises OSError."""
        if not self._given:
            self._given = True
            atomic_write.write_whole(Path(self._folder.name, ORDERS), json.dumps({"orders": orders}))

    def all_read(self) -> None:
        """Removes the files, which all workers have read; may be called twice. Workers that still wait end."""
        self._folder.cleanup()

    def close(self) -> None:
        """Ends the servers of the workers too."""
        self.all_read()
        for server in self._servers:
            server.kill()
        self._servers.clear()


def wait_for(place: Mapping[str, Any]) -> dict[str, Any]:
    """The orders of a worker. Raises NoOrders once there will be none.

    The controller's own limits bound the time: it prepares models within theirs, and a worker notices its end.
    """
    folder, ready, begun = Path(place["folder"]), False, time.monotonic()
    while True:
        if not ready and (folder / LENT).exists():
            ready = True
            _take_server(folder, place)
        try:
            orders = json.loads((folder / ORDERS).read_bytes())["orders"]
        except FileNotFoundError:
            if not folder.is_dir() or os.getppid() != place["controller"]:
                shutil.rmtree(folder, ignore_errors=True)  # a controller that was killed has left it
                raise NoOrders from None
        else:
            if orders is None:
                raise NoOrders
            return orders
        time.sleep(min(MOST_PAUSE, max(PAUSE, SHARE * (time.monotonic() - begun))))


def _take_server(folder: Path, place: Mapping[str, Any]) -> None:
    """Takes the server that the controller has lent this worker; where that fails, gets one of its own ready."""
    with contextlib.suppress(FileNotFoundError):  # the controller has ended
        lent = json.loads((folder / LENT).read_bytes())
        if not forked.use(str(folder / f"{SOCKETS}{place['worker']}"), lent["settings"]):
            server_ahead.for_lanes(place["backends"], controller=False)
