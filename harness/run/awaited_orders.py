"""xdist workers start while the models are prepared: they wait for their orders, a file that the controller writes.

A worker takes as long to start as a small model to be prepared, and a lane's backend as long again. So the controller
starts its workers first. While a model is being made, whose ops will have to run, they get their backends ready.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opscope.base import atomic_write
from opscope.base.children.call import call
from opscope.harness.lanes import worker_ahead

ORDERS, MAKING = "orders.json", "making"
"""Files of the controller: what the workers shall do, or that there is nothing; that a model is being made."""

PAUSE, MOST_PAUSE, SHARE = 0.01, 0.25, 1 / 50
"""Seconds between two looks at the files, least and most; between them, this share of what a worker has waited so far.
64 workers that look a hundred times a second take two thirds of a core from what they wait for."""


def can_wait(specs: Sequence[Any]) -> bool:
    """Whether all of xdist's workers are children of this process, which see its files and its end."""
    return all(spec.popen and not (spec.via or spec.chdir) for spec in specs)


class NoOrders(Exception):  # noqa: N818 - the run has ended, which is no error of the worker
    """There will be no orders: the controller has refused the run, or has ended."""


class AwaitedOrders:
    """The controller's side: where its workers find their orders."""

    def __init__(self, backends: Sequence[str]) -> None:
        self._backends = list(backends)
        self._folder = tempfile.TemporaryDirectory(prefix="opscope-orders-", ignore_cleanup_errors=True)
        self._given = False

    def place(self) -> dict[str, Any]:
        """What a worker gets when it starts; it can be JSON."""
        return {"folder": self._folder.name, "controller": os.getpid(), "backends": self._backends}

    def making(self) -> None:
        """Says that a model is being made, so that lanes will be needed."""
        Path(self._folder.name, MAKING).touch()

    def give(self, orders: Mapping[str, Any] | None) -> None:
        """Gives the workers their orders, once; None says that there are none. Raises OSError."""
        if not self._given:
            self._given = True
            atomic_write.write_whole(Path(self._folder.name, ORDERS), json.dumps({"orders": orders}))

    def close(self) -> None:
        """Removes the files; may be called twice. Workers that still wait end."""
        self._folder.cleanup()


def wait_for(place: Mapping[str, Any]) -> dict[str, Any]:
    """The orders of a worker. Raises NoOrders once there will be none.

    The controller's own limits bound the time: it prepares models within theirs, and a worker notices its end.
    """
    folder, ready, begun = Path(place["folder"]), False, time.monotonic()
    while True:
        try:
            orders = json.loads((folder / ORDERS).read_bytes())["orders"]
        except FileNotFoundError:
            orders = None
            if not folder.is_dir() or os.getppid() != place["controller"]:
                shutil.rmtree(folder, ignore_errors=True)  # a controller that was killed has left it
                raise NoOrders from None
        else:
            if orders is None:
                raise NoOrders
            return orders
        if not ready and (folder / MAKING).exists():
            ready = True
            for backend in place["backends"]:
                get_ready(backend)
        else:
            time.sleep(min(MOST_PAUSE, max(PAUSE, SHARE * (time.monotonic() - begun))))


def get_ready(backend: str) -> None:
    """Has the process of which this worker's lanes are forks load a backend, if it is one that forks may share."""
    if ahead := worker_ahead.call_for(backend):
        call("opscope.harness.lanes.worker:nothing", {}, ahead=ahead)
