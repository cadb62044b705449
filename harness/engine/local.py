"""The ops of a run in lanes of this machine: each lane is on a thread, and takes the first op in order that can run.

    records()  <- Begun, Done -  threads 1..K  -  a lane of each backend, whose children climb

A thread starts when there is an op for its lane: where all verdicts are kept, there is one.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from opscope.harness.cache.growing_export import GrowingExport
from opscope.harness.engine.climber import Climber
from opscope.harness.engine.engine import Begun, Done, OpJob
from opscope.harness.engine.ready_ops import ReadyOps
from opscope.harness.prepare.turn import Stopped

LOOK = 0.05
"""Seconds between two looks at the time of the budget while nothing can run."""
PATIENCE = 10.0
"""Seconds for all lanes to end. One that waits for a process that loads a library ends with that process."""

Climbers = Callable[[int, Callable[[], None], Callable[[], None]], Mapping[str, Climber]]
"""Makes what climbs ops in the lane of a number (from 0), by the tags of backends. The first of two calls that they get
raises Stopped once the run is to end, the second is made before an op needs the lane."""


class LocalEngine:
    """Runs ops in lanes of this machine (`engine.Engine`)."""

    def __init__(
        self,
        climbers: Climbers,
        lanes: int = 1,
        exports: Mapping[str, GrowingExport] | None = None,
        news: threading.Condition | None = None,
        in_time: Callable[[], bool] = lambda: True,
        in_step: bool = False,
    ) -> None:
        """`exports` has the models whose goldens are still being made; `news` is notified when more is known of one.
        Once it is no more `in_time`, nobody waits for goldens: each op has its record at once. With `in_step`, a lane
        begins no op before its last record was taken: whoever takes it may end the run by it."""
        self._climbers, self._lanes = climbers, lanes
        self._exports, self._in_time = exports or {}, in_time
        self._first: Mapping[str, Climber] | None = None
        """What climbs in the first lane, until its thread has it."""
        self._news = news or threading.Condition()
        """Held by whoever looks what can run."""
        self._jobs: Sequence[OpJob] = ()
        self._places: dict[str, list[int]] = {}
        self._ready: list[int] = []
        """A heap of the places of jobs that can run."""
        self._ops = ReadyOps({}, ())
        self._events: queue.SimpleQueue[Begun | Done | BaseException] = queue.SimpleQueue()
        self._in_step = in_step
        self._threads: list[threading.Thread] = []
        self._under_way: dict[int, OpJob | None] = {}
        self._go, self._stop = threading.Event(), threading.Event()
        self._all_done = False
        self.waited = 0.0

    def start(self, jobs: Sequence[OpJob]) -> None:
        """Begins to load backends in as many lanes as there are ops that need one."""
        climbers = self._first = self._first or self._climbers(0, self._check, partial(self._begun, 0))
        needed = 0
        for job in jobs:
            needed += climbers[job.tag].needs_lane(job.row)
            if needed == self._lanes:
                break
        for _ in range(needed):
            self._begin()

    def records(self, jobs: Sequence[OpJob]) -> Iterator[Begun | Done]:
        """Runs ops in their order, but for those that wait for their goldens. Raises InputError."""
        with self._news:
            self._jobs, left = list(jobs), len(jobs)
            for place, job in enumerate(self._jobs):
                self._places.setdefault(job.row.op_id, []).append(place)
            self._ops = ReadyOps(self._exports, {job.row.op_id: job.row for job in self._jobs}.values())
        self._go.set()
        if left and not self._threads:
            self._begin()
        while left:
            event = self._events.get()
            if isinstance(event, BaseException):
                raise event
            left -= isinstance(event, Done)
            yield event
            if isinstance(event, Done):
                event.taken.set()
        self._all_done = True

    def close(self) -> None:
        """Ends all lanes at once. Raises what one of them met while it ended, if all ops have their records."""
        self._stop.set()
        self._go.set()
        with self._news:
            self._news.notify_all()
        until = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._threads.clear()
        first, self._first = self._first, None
        for climber in (first or {}).values():
            climber.close()
        while self._all_done and not self._events.empty():
            if isinstance(event := self._events.get(), BaseException):
                raise event

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped

    # --- the threads

    def _begin(self) -> None:
        """Starts the thread of one more lane."""
        number = len(self._threads)
        thread = threading.Thread(target=self._work, args=(number,), name=f"opscope lane {number}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self, number: int) -> None:
        """Runs ops in one lane until there are no more."""
        climbers: Mapping[str, Climber] = {}
        self._under_way[number] = None
        try:
            if number == 0 and self._first is not None:
                climbers, self._first = self._first, None
            else:
                climbers = self._climbers(number, self._check, partial(self._begun, number))
            if not self._go.is_set():
                for climber in climbers.values():
                    climber.start()
                self._go.wait()
            while (job := self._next(climbers)) is not None:
                self._under_way[number] = job
                began, since = time.time(), time.monotonic()
                test, verdict = climbers[job.tag].climb(job.row)
                self._say(Done(job, test, verdict, began, time.monotonic() - since))
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by `records` or `close`
            self._events.put(error)
        finally:
            for climber in climbers.values():
                try:
                    climber.close()
                except BaseException as error:  # noqa: BLE001 - likewise
                    self._events.put(error)
            with self._news:
                self.waited += sum(climber.waited for climber in climbers.values())

    def _say(self, done: Done) -> None:
        """Hands on a record; waits until it was taken, where lanes run in step."""
        self._events.put(done)
        while self._in_step and not done.taken.wait(LOOK):
            self._check()

    def _begun(self, number: int) -> None:
        """An op needs the lane of a number: there may be work for another lane."""
        self._check()
        job = self._under_way[number]
        assert job is not None
        self._events.put(Begun(job))
        with self._news:
            if self._ready and len(self._threads) < self._lanes and not self._stop.is_set():
                self._begin()

    def _next(self, climbers: Mapping[str, Climber]) -> OpJob | None:
        """The first op that can run, once there is one; None if there are no more."""
        since: float | None = None
        with self._news:
            try:
                while not self._stop.is_set():
                    self._look()
                    if self._ready:
                        return self._jobs[heapq.heappop(self._ready)]
                    if not self._ops.waiting:
                        return None
                    if since is None:
                        since = time.monotonic()
                        for climber in climbers.values():
                            climber.rest()
                    self._news.wait(LOOK)
                return None
            finally:
                if since is not None:
                    self.waited += time.monotonic() - since

    def _look(self) -> None:
        """Takes what has become ready."""
        if self._ops.waiting:
            for op_id in self._ops.look() if self._in_time() else self._ops.rest():
                for place in self._places[op_id]:
                    heapq.heappush(self._ready, place)
