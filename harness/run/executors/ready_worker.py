"""An xdist worker begins each op as soon as it has it.

xdist's own loop begins a test only once the next one is known, for what pytest tears down between the two. Nothing is
between two ops, and while goldens are made the next one may not be known for long.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from opscope.harness.run.session import OpByOp

OF_THE_LOOP = ("run_one_test", "sendevent")
"""Methods of xdist's worker that are replaced, or called here."""
OF_ITS_QUEUE = ("get", "lock")


def is_possible() -> bool:
    """Whether the xdist that is installed has a loop as it is known here."""
    from xdist import remote

    queue, loop = getattr(remote, "TestQueue", None), getattr(remote, "WorkerInteractor", None)
    return all(hasattr(loop, name) for name in OF_THE_LOOP) and all(hasattr(queue, name) for name in OF_ITS_QUEUE)


def begin_at_once(session: pytest.Session, run: OpByOp) -> None:
    """Has xdist's loop in this process run one test at a time; does nothing with an xdist that is not known here."""
    if is_possible():
        # xdist runs its module under another name in a worker, so that its classes are not those of the import.
        loop = next(p for p in session.config.pluginmanager.get_plugins() if hasattr(p, "run_one_test"))
        loop.run_one_test = partial(_run_one_test, loop, session, run)


def _run_one_test(loop: Any, session: pytest.Session, run: OpByOp) -> None:
    """Runs the test that the worker has, and waits for the next one, without a slot where there is none yet."""
    loop.item_index = loop.nextitem_index
    item: pytest.Item = session.items[loop.item_index]
    next_item: Any = session  # as the next test is not known, the set-up of this one's model is torn down
    began = time.perf_counter()
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
    loop.sendevent("runtest_protocol_complete", item_index=loop.item_index, duration=time.perf_counter() - began)
    if session.shouldfail or session.shouldstop:
        return  # the loop ends
    with loop.torun.lock() as tests:
        waits = not tests
    if waits:
        run.climbers()[0].rest()
    began = time.monotonic()
    loop.nextitem_index = loop.torun.get()
    if waits:
        run.waited += time.monotonic() - began
