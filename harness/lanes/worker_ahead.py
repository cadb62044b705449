"""What the process does of which lanes are forks: it gets a backend ready once for all of them.

Backends of this project that load nothing share one such process with all other children. One that has a `load`, and
any user's that is `forkable`, has a process of the run's own (`scratch.server_of`), so that no other child has its
libraries and threads.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opscope.base import gc_pause
from opscope.base.children import process_tree
from opscope.harness.backends import registry
from opscope.harness.lanes import scratch
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import ResultOptions

if TYPE_CHECKING:
    from opscope.harness.backends.base import Backend

WORKER = "opscope.harness.lanes.worker:serve"
"""What a lane's child runs."""


_LOAD_SECONDS = 120.0
"""Longer than any library takes to load, from a slow disk too."""


@dataclass(frozen=True)
class Start:
    """How the child of a lane starts."""

    ahead: tuple[str, ...] = ()
    """The call that gets a backend ready ahead, as `Child` takes it; empty if each lane has to do so itself."""
    server: str = ""
    """The process of which the child is a fork."""

    def is_loaded(self) -> bool:
        """Whether that process has begun to load."""
        return bool(self.server) and Path(self.ahead[2]).is_dir()


@dataclass(frozen=True)
class Loaded:
    """A backend loaded in the process that this one was forked from, or why it could not be loaded."""

    backend: Backend | None
    problem: InputError | None = None


loaded: dict[str, Loaded] = {}
"""The backends that this process, or the one that it is a fork of, has loaded."""


def call_for(backend: str) -> tuple[str, ...]:
    """The call that gets a backend ready in the process that all children are forked from; empty if there is none.

    Only backends of our own that say so are `forkable` there: what another's import does is unknown.
    """
    own = backend in registry.own_names() and registry.declares(backend, "forkable")
    return (f"{__name__}:get_ready", backend) if own and not scratch.loads_once(backend) else ()


def start_of(backend: str, place: scratch.Place | None) -> Start:
    """How a lane's child starts; `place` is the folder of the run where the backend needs one."""
    if place is None or not scratch.loads_once(backend):
        return Start(call_for(backend))
    server = scratch.server_of(backend, place)
    folder = f"{server}.load"
    return Start((f"{__name__}:load", registry.absolute(backend), folder), server)


def get_ready(backend: str) -> None:
    """Loads a backend and does its work of one time. What a lane cannot do either, the lane reports."""
    from opscope.harness.backends import life

    with contextlib.suppress(InputError), gc_pause.paused():
        ready = registry.load(backend)
        if ready.available() is None:
            life.with_options(ready.fingerprint, ResultOptions())
            life.with_options(ready.warm_up, ResultOptions())


def load(backend: str, folder: str) -> int:
    """Loads a backend whose library may write to `folder`, and returns how many threads that has left."""
    from opscope.harness.backends import life

    Path(folder).mkdir(exist_ok=True)
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None
    os.chdir(folder)
    signal.setitimer(signal.ITIMER_REAL, _LOAD_SECONDS)  # ends this process if a library hangs: its lane says so then
    try:
        with gc_pause.paused():
            loaded[backend] = Loaded(life.load(backend))
    except InputError as error:
        loaded[backend] = Loaded(None, error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.chdir("/")
    return process_tree.threads_of(os.getpid())
