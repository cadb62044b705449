"""Jobs that threads do before their results are asked for, where the code that they call releases Python's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from opscope.base.machine import processors

_EACH = 4
"""How many jobs are ahead for each thread: what they need and what they have made is in memory."""
_MOST_THREADS = 4
"""Above this, whoever takes one result after another is what takes the time."""

Result = TypeVar("Result")


def threads() -> int:
    """How many threads there should be: one for each processor that this process may run on, but four at most."""
    return min(_MOST_THREADS, processors())


class JobsAhead(Generic[Result]):
    """Jobs in the order in which their results will be asked for; a few of them are always under way."""

    def __init__(self, jobs: Iterable[tuple[str, Callable[[], Callable[[], Result]]]], threads: int) -> None:
        """Each job has a name and two halves: the first is called here, what it returns on one of the threads."""
        self._jobs = iter(jobs)
        self._pool = ThreadPoolExecutor(threads)
        self._most = threads * _EACH
        self._ahead: dict[str, Future[Result]] = {}
        self._passed_over: dict[str, Future[Result]] = {}
        """Jobs that were not asked for when their turn came. They may be asked for later."""

    def take(self, name: str) -> Result:
        """The result of a job, once it is there. Raises what either half of it raised, KeyError for no such job.

        A job is forgotten when it has been taken.
        """
        future = self._passed_over.pop(name, None)
        while future is None:
            if not self._ahead and not self._begin_next():
                raise KeyError(name)
            first = next(iter(self._ahead))
            if first == name:
                future = self._ahead.pop(first)
            else:
                self._passed_over[first] = self._ahead.pop(first)
        while len(self._ahead) < self._most and self._begin_next():
            pass
        return future.result()

    def close(self) -> None:
        """Begins no further job, and waits for those under way."""
        self._pool.shutdown(cancel_futures=True)

    def _begin_next(self) -> bool:
        """Begins the next job. False if there is none."""
        for name, first_half in self._jobs:
            try:
                self._ahead[name] = self._pool.submit(first_half())
            except Exception as error:  # noqa: BLE001  whoever takes the job gets it
                self._ahead[name] = Future()
                self._ahead[name].set_exception(error)
            return True
        return False
