"""What lanes need, imported by the process of which they are forks while the command reads what it is to run.

A sweep of `opscope ulp` needs lanes alone, so nothing here imports what exports or splits models.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from opscope.base.children import forked
from opscope.harness.lanes import scratch, worker_ahead
from opscope.harness.record.errors import InputError


def for_lanes(backends: Sequence[str]) -> None:
    """Begins for ops that will run on some backends."""
    for backend in backends:
        if ahead := worker_ahead.call_for(backend):
            forked.get_ready(worker_ahead.WORKER, ahead)
    load_libraries(backends)


def load_libraries(backends: Sequence[str]) -> None:
    """Begins to load what is loaded once a run, in a process of its own: no exporter waits for that one."""
    for backend in filter(scratch.loads_once, backends):
        with contextlib.suppress(InputError):  # the lanes say what is wrong with TMPDIR
            scratch.check_room(backend)
            start = worker_ahead.start_of(backend, scratch.of_process())
            forked.get_ready(worker_ahead.WORKER, start.ahead, start.server)
