"""Jobs side by side, each on a thread that mostly waits for its children; they report to the caller's own thread.

Jobs that together hold more memory than this machine can spare are stopped, the youngest first, and begun again one by
one once the others have ended. So what a job returns must not depend on how often it was begun.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from opscope.base.children.process_tree import exact_resident, usage
from opscope.base.machine import memory_limit

LOOK = 0.2
"""Seconds between two looks at the memory that all jobs hold."""
EXACT_SHARE = 1 / 20
"""The part of the time that exact looks may take: it takes long to see what many processes share."""

Result = TypeVar("Result")


class Stopped(Exception):
    """The job is to end: the caller has stopped it, or there is not enough memory for all jobs."""


class Turn:
    """One job at work: it reports, and learns that it is to end."""

    def __init__(self, report: Callable[[Any], None], all_stop: Callable[[], bool] = lambda: False) -> None:
        self._report, self._stop, self._all_stop = report, threading.Event(), all_stop

    def report(self, event: Any) -> None:
        """Hands an event to the caller. Raises Stopped."""
        self.check()
        self._report(event)

    def check(self) -> None:
        """Raises Stopped if the job is to end. To be called while it waits."""
        if self._stop.is_set() or self._all_stop():
            raise Stopped

    def stop(self) -> None:
        """Has the job end."""
        self._stop.set()


def side_by_side(
    jobs: Sequence[Callable[[Turn], Result]],
    at_once: int,
    on_event: Callable[[Any], None],
    on_postponed: Callable[[int], None] = lambda number: None,
    memory: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Result]:
    """The results of all jobs, in their order, with at most `at_once` of them under way.

    `memory` is how many bytes this process and all its children may hold before a job is postponed (`on_postponed`
    gets its number); None means three quarters of the machine's. Raises what the first job raises, or what `on_event`
    does, or Stopped where `stop` says so, once all jobs under way have ended. A single job, or one at a time, needs no
    thread.
    """
    if at_once == 1 or len(jobs) == 1:
        return [job(Turn(on_event, stop)) for job in jobs]
    return _Crew(jobs, at_once, on_event, on_postponed, memory_limit(memory), stop).run()


class _Crew(Generic[Result]):
    """The jobs under way, and those that wait."""

    def __init__(
        self,
        jobs: Sequence[Callable[[Turn], Result]],
        at_once: int,
        on_event: Callable[[Any], None],
        on_postponed: Callable[[int], None],
        memory: int,
        stop: Callable[[], bool],
    ) -> None:
        self._stop = stop
        self._jobs, self._at_once, self._on_event, self._on_postponed = jobs, at_once, on_event, on_postponed
        self._memory = memory
        self._waiting, self._alone = deque(range(len(jobs))), deque[int]()
        self._running: dict[int, Turn] = {}
        """The jobs under way, the youngest last."""
        self._words: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        """What is to be done on the caller's thread."""
        self._results: dict[int, Result] = {}
        self._next_exact = 0.0
        """When the memory may be looked at exactly again (time.monotonic)."""

    def run(self) -> list[Result]:
        with ThreadPoolExecutor(self._at_once, thread_name_prefix="side-by-side") as pool:
            try:
                looked = time.monotonic()
                while self._waiting or self._alone or self._running:
                    if self._stop():
                        raise Stopped
                    while self._waiting and len(self._running) < self._at_once:
                        self._begin(pool, self._waiting.popleft())
                    if self._alone and not self._running:
                        self._begin(pool, self._alone.popleft())
                    self._next_word()()
                    if time.monotonic() - looked > LOOK:
                        self._spare_memory()
                        looked = time.monotonic()
            except BaseException:
                for turn in self._running.values():
                    turn.stop()
                raise  # once the pool's threads have ended
        return [self._results[number] for number in range(len(self._jobs))]

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
            result = self._jobs[number](turn)
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

    def _raised(self, number: int, error: BaseException) -> None:
        del self._running[number]
        raise error

    def _postponed(self, number: int) -> None:
        del self._running[number]
        self._alone.append(number)
        self._on_postponed(number)

    def _spare_memory(self) -> None:
        """Stops the youngest of several jobs if all together hold too much."""
        if len(self._running) < 2 or time.monotonic() < self._next_exact or usage(os.getpid())[0] <= self._memory:
            return
        begun = time.monotonic()
        if exact_resident(os.getpid()) > self._memory:
            next(reversed(self._running.values())).stop()
        self._next_exact = time.monotonic() + (time.monotonic() - begun) / EXACT_SHARE
