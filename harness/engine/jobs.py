"""The jobs of a run, and the scheduler of those that are known before they begin: `side_by_side`.

| kind | key | needs | limits | where |
|---|---|---|---|---|
| split | a model | nothing | `prepare/allowance.py`, with its walk | here: exported and split by a child |
| walk | a model | its split, where others are split meanwhile | what its split has left | here, or on the cluster |
| check | a model | its walk | those of a model, anew | here, in the model's own framework |
| derive | a model | its walk | those of a model, anew | here: the pieces of a workflow, made by a child |
| whole | a model and a backend | its walk | an op's, for longer (`record/workflows.py`) | a lane, or the cluster |
| op | an op and a backend | its goldens | `lanes/lane.py` (`LaneConfig`) | a lane, or the cluster |
| rerun | an op that failed | its record | an op's | its lane, in a new child (`climb/reruns.py`) |
| mend | an export that is damaged | nothing | a model's | here, while the op waits (`model_jobs.mend`) |

How many ops there are is known after the splits, so they have a heap (`local.py`) and the jobs of models a graph.

Each job is on a thread that mostly waits for its children; they report to the caller's own thread. A job begins once
those that it needs have ended, the first of the list first.

Jobs that together hold more memory than this machine can spare are stopped, the youngest first, and begun again one by
one once the others have ended. So what a job returns must not depend on how often it was begun.
"""

from __future__ import annotations

import heapq
import os
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from graphlib import TopologicalSorter
from typing import Any, Generic, TypeVar

from opscope.base.children.process_tree import exact_resident, usage
from opscope.base.machine import memory_limit
from opscope.harness.prepare.turn import Stopped, Turn

LOOK = 0.2
"""Seconds between two looks at the memory that all jobs hold."""
MOST_ELSEWHERE = 64
"""Jobs that wait for other machines at once, each of which has a thread here."""
EXACT_SHARE = 1 / 20
"""The part of the time that exact looks may take: it takes long to see what many processes share."""

Result = TypeVar("Result")


class Kind(StrEnum):
    """What a job does that is known before it begins (the table above)."""

    SPLIT = "split"
    WALK = "walk"
    CHECK = "check"
    DERIVE = "derive"


@dataclass(frozen=True)
class Job(Generic[Result]):
    """A job, and what it waits for."""

    kind: Kind
    model: str
    work: Callable[[Turn], Result]
    needs: Sequence[int] = ()
    """Numbers of the jobs, all of them before it, that have ended when it begins."""
    elsewhere: bool = False
    """Whether it waits for another machine, and so is none of those that are under way on this one."""


def side_by_side(
    jobs: Sequence[Job[Result]],
    at_once: int,
    on_event: Callable[[Any], None],
    memory: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Result]:
    """The results of all jobs, in their order; the first that has what it needs comes first, `at_once` are under way.

    `memory` is how many bytes this process and all its children may hold before a job is postponed, which is an event
    of its model; None means three quarters of the machine's. Raises what the first job raises, or what `on_event`
    does, or Stopped where `stop` says so, once all jobs under way have ended. A single job, or one at a time, needs no
    thread.
    """
    if len(jobs) == 1 or (at_once == 1 and not any(job.elsewhere for job in jobs)):
        return [job.work(Turn(on_event, stop)) for job in jobs]
    return _Crew(jobs, at_once, on_event, memory_limit(memory), stop).run()


class _Crew(Generic[Result]):
    """The jobs under way, and those that wait."""

    def __init__(
        self,
        jobs: Sequence[Job[Result]],
        at_once: int,
        on_event: Callable[[Any], None],
        memory: int,
        stop: Callable[[], bool],
    ) -> None:
        self._stop = stop
        self._jobs, self._on_event = jobs, on_event
        self._memory = memory
        self._graph = TopologicalSorter({number: job.needs for number, job in enumerate(jobs)})
        self._graph.prepare()
        self._room = {False: at_once, True: MOST_ELSEWHERE}
        """How many jobs are under way at most: on this machine, and elsewhere."""
        self._ready: dict[bool, list[int]] = {False: [], True: []}
        """Heaps of the jobs that have what they need."""
        self._alone = deque[int]()
        self._running: dict[int, Turn] = {}
        """The jobs under way, the youngest last."""
        self._words: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        """What is to be done on the caller's thread."""
        self._results: dict[int, Result] = {}
        self._next_exact = 0.0
        """When the memory may be looked at exactly again (time.monotonic)."""

    def run(self) -> list[Result]:
        with ThreadPoolExecutor(sum(self._room.values()), thread_name_prefix="side-by-side") as pool:
            try:
                looked = time.monotonic()
                while self._graph.is_active():
                    if self._stop():
                        raise Stopped
                    self._begin_what_may(pool)
                    self._next_word()()
                    if time.monotonic() - looked > LOOK:
                        self._spare_memory()
                        looked = time.monotonic()
            except BaseException:
                for turn in self._running.values():
                    turn.stop()
                raise  # once the pool's threads have ended
        return [self._results[number] for number in range(len(self._jobs))]

    def _begin_what_may(self, pool: ThreadPoolExecutor) -> None:
        for number in self._graph.get_ready():
            heapq.heappush(self._ready[self._jobs[number].elsewhere], number)
        for elsewhere, ready in self._ready.items():
            while ready and len(self._under_way(elsewhere)) < self._room[elsewhere]:
                self._begin(pool, heapq.heappop(ready))
        if self._alone and not self._under_way(elsewhere=False):
            self._begin(pool, self._alone.popleft())

    def _under_way(self, elsewhere: bool) -> list[int]:
        """The jobs under way in one of both places, the youngest last."""
        return [number for number in self._running if self._jobs[number].elsewhere is elsewhere]

    def _next_word(self) -> Callable[[], None]:
        """What is to be done next; after a while nothing."""
        try:
            return self._words.get(timeout=LOOK)
        except queue.Empty:
            return lambda: None

    def _begin(self, pool: ThreadPoolExecutor, number: int) -> None:
        turn = self._running[number] = Turn(lambda event: self._words.put(lambda: self._on_event(event)))
        pool.submit(self._work, number, turn)

    def _work(self, number: int, turn: Turn) -> None:
        """Does a job, on a thread of its own."""
        try:
            result = self._jobs[number].work(turn)
        except Stopped:
            self._words.put(lambda: self._postponed(number))
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            failure = error
            self._words.put(lambda: self._raised(number, failure))
        else:
            self._words.put(lambda: self._done(number, result))

    def _done(self, number: int, result: Result) -> None:
        del self._running[number]
        self._results[number] = result
        self._graph.done(number)

    def _raised(self, number: int, error: BaseException) -> None:
        del self._running[number]
        raise error

    def _postponed(self, number: int) -> None:
        del self._running[number]
        self._alone.append(number)
        waits = {"event": "stage", "stage": "waiting for memory", "done": 0, "total": 1}
        self._on_event({**waits, "model": self._jobs[number].model})

    def _spare_memory(self) -> None:
        """Stops the youngest of several jobs if all together hold too much."""
        here = self._under_way(elsewhere=False)
        if len(here) < 2 or time.monotonic() < self._next_exact or usage(os.getpid())[0] <= self._memory:
            return
        begun = time.monotonic()
        if exact_resident(os.getpid()) > self._memory:
            self._running[here[-1]].stop()
        self._next_exact = time.monotonic() + (time.monotonic() - begun) / EXACT_SHARE
