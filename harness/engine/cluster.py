"""The ops of a run on a cluster: one lane for each backend, which has many ops under way there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from opscope.harness.engine.climber import Climber
from opscope.harness.engine.engine import Begun, Done, OpJob


class ClusterEngine:
    """Runs ops on a cluster (`engine.Engine`), those of one backend after those of the other."""

    def __init__(self, climbers: Mapping[str, Climber]) -> None:
        """`climbers` has what climbs ops of each backend, by its tag."""
        self._climbers = dict(climbers)
        self.waited = 0.0

    def start(self, jobs: Sequence[OpJob]) -> None:
        """Has the lanes there start, of each backend that some ops need."""
        for tag, climber in self._climbers.items():
            if any(job.tag == tag and climber.needs_lane(job.row) for job in jobs):
                climber.start()

    def records(self, jobs: Sequence[OpJob]) -> Iterator[Begun | Done]:
        """Runs ops, and yields them in the order in which their records arrive. Raises InputError."""
        for tag, climber in self._climbers.items():
            by_id = {job.row.op_id: job for job in jobs if job.tag == tag}
            for row in climber.arrivals([job.row for job in by_id.values()]):
                began, since = time.time(), time.monotonic()
                test, verdict = climber.climb(row)
                yield Done(by_id[row.op_id], test, verdict, began, time.monotonic() - since)

    def close(self) -> None:
        """Leaves the cluster."""
        climbers, self._climbers = self._climbers, {}
        for climber in climbers.values():
            climber.close()
        self.waited += sum(climber.waited for climber in climbers.values())
