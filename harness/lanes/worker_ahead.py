"""What the process does of which lanes are forks: it gets a backend ready once for all of them."""

from __future__ import annotations

import contextlib

from opscope.base import gc_pause
from opscope.harness.backends import registry
from opscope.harness.record.errors import InputError

WORKER = "opscope.harness.lanes.worker:serve"
"""What a lane's child runs."""


def call_for(backend: str) -> tuple[str, ...]:
    """The call that gets a backend ready ahead, as `Child` takes it; empty if each lane has to do so itself.

    Only backends of our own that say so are `forkable`: what another's import does is unknown.
    """
    if backend in registry.own_names() and registry.declares(backend, "forkable"):
        return (f"{__name__}:get_ready", backend)
    return ()


def get_ready(backend: str) -> None:
    """Loads a backend and does its work of one time. What a lane cannot do either, the lane reports."""
    with contextlib.suppress(InputError), gc_pause.paused():
        loaded = registry.load(backend)
        if loaded.available() is None:
            loaded.fingerprint()
            loaded.warm_up()
