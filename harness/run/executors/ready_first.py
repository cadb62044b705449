"""While goldens are made, ops run first whose goldens are there: in one lane, and with xdist's workers.

One lane takes the first such op (`ready_loop.py`). xdist's controller hands out only such ops (`ready_scheduling.py`),
and a worker begins each at once (`ready_worker.py`), where xdist's own would keep it until it knows the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opscope.harness.climb import budget
from opscope.harness.run import awaited_orders

if TYPE_CHECKING:
    from opscope.harness.run.session import OpByOp


class ReadyFirst:
    """The hooks of a process that runs ops or hands them out, for as long as goldens are made."""

    def __init__(self, run: OpByOp) -> None:
        self._run = run

    @property
    def _growing(self) -> bool:
        plan = self._run.plan  # a cluster is sent them by its own loop (`cluster_loop.py`)
        return plan is not None and bool(plan.orders.growing) and plan.orders.cluster is None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Runs the tests of the one lane of a run; prepares a worker for xdist's own loop."""
        config = session.config
        if not self._growing or config.option.collectonly or config.pluginmanager.hasplugin("dsession"):
            return None
        if self._run.worker is not None:
            from opscope.harness.run.executors import ready_worker

            ready_worker.begin_at_once(session, self._run)
            return None
        if session.testsfailed:
            return None  # pytest says so
        from opscope.harness.run.executors import ready_loop

        climber = self._run.climbers()[0]
        assert climber.goldens is not None
        assert self._run.plan is not None
        ready_loop.run(session, climber.goldens, budget.clock(self._run.plan.orders.deadline))
        return True

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Hands out ops as their goldens are made, to workers of this machine, unless another way is asked for."""
        plan = self._run.plan
        if plan is None or not self._growing or config.getvalue("dist") != "load":
            return None
        from opscope.harness.run.executors import ready_worker

        distribution: Any = config.pluginmanager.getplugin("dsession")
        if not (ready_worker.is_possible() and awaited_orders.can_wait(distribution.nodemanager.specs)):
            return None
        from opscope.harness.run.executors.ready_scheduling import ReadyScheduling

        return ReadyScheduling(config, log, plan)
