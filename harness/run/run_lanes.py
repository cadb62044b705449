"""The lanes of a run, one for each backend, until its ops are collected; and what the backends report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from opscope.harness.climb import result_cache
from opscope.harness.lanes.flight import Ready
from opscope.harness.run import server_ahead
from opscope.harness.run.plan import MAIN, AnyLane, RunPlan, lane_of
from opscope.harness.run.progress import Event

EXPORTER_FIRST = 0.05
"""Seconds for the first exporter to be asked for before anything else is: forks are made one after another, and all
else waits for the exporter."""
MADE = frozenset({"stage", "done", "failed"})
"""Events of the preparation that say that a model is being made, or was."""


class RunLanes:
    """Lanes load their backends while models are prepared, where ops will certainly run."""

    def __init__(self, plan: RunPlan, folders: dict[str, str], dry: bool = False) -> None:
        """`folders` gets the export folders of models as they become known. No lane starts yet."""
        self._sides = plan.sides()
        self.lanes: list[AnyLane] = [lane_of(side.orders, folders, side.writer(MAIN), dry=dry) for side in self._sides]
        self._recalled: list[Ready | None] = [None] * len(self.lanes)
        """Each backend's report in an earlier run."""

    def recall(self, cached: bool, start: bool = True) -> None:
        """Recalls what backends reported in an earlier run, if verdicts of it may be used. Without, every op will run:
        lanes start now, if they are to `start` already."""
        for place, (side, lane) in enumerate(zip(self._sides, self.lanes, strict=True)):
            if cached:
                self._recalled[place] = result_cache.recall(side.orders.caches, side.orders.context)
            if self._recalled[place] is None and start:
                lane.start()

    def listener(self, report: Callable[[Event], None], exporters_first: bool = False) -> Callable[[Event], None]:
        """What hears the events of the preparation. Lanes load backends meanwhile; a refused option ends the run.

        With `exporters_first`, it waits a little at the first model that is made.
        """
        pause = EXPORTER_FIRST if exporters_first else 0.0

        def on_event(event: Event) -> None:
            nonlocal pause
            if pause and event["event"] == "stage":
                time.sleep(pause)
                pause = 0.0
                server_ahead.for_splits()
            report(event)
            if event["event"] not in MADE:
                return
            load = server_ahead.lanes_may_load(event)
            for lane, recalled in zip(self.lanes, self._recalled, strict=True):
                if recalled is None and (load or event["event"] != "stage"):
                    lane.ready()
                elif load:  # a model is exported anew, so its ops have to run
                    lane.start()

        return on_event

    def ready(self) -> list[Ready]:
        """Each backend's report, which is kept for later runs. Raises InputError if a backend refuses its options."""
        reports = []
        for side, lane, recalled in zip(self._sides, self.lanes, self._recalled, strict=True):
            report = recalled
            if report is None:
                report = lane.ready()
                result_cache.note(side.orders.caches, side.orders.context, report)
            reports.append(report)
        return reports

    @contextlib.contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Ends the lanes where the start of the run fails."""
        try:
            yield
        except BaseException:
            for lane in self.lanes:
                lane.close()
            raise
