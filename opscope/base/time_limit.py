"""A time limit for work in this process that no child can do, such as writing to a database."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_ends: list[float] = []
"""When the limits end that are open (time.monotonic)."""


class TimeIsUpError(Exception):
    """The limit has passed; the text says which."""


class _Alarm(KeyboardInterrupt):
    """Raised by the timer. No `except Exception` on its way keeps it, and the driver of PostgreSQL cancels its query at
    the server, as it does for Ctrl-C: it would go on waiting for its lock there."""


def expired() -> bool:
    """Whether an open limit has passed: for code in C that asks now and then, since a signal waits for its end."""
    return bool(_ends) and time.monotonic() >= min(_ends)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeIsUpError in what runs within the context, once `seconds` are over.

    Only the main thread can be interrupted; in another one, only code that asks `expired` ends. A timer that was set
    before goes on afterwards.
    """
    end = time.monotonic() + seconds
    in_main = threading.current_thread() is threading.main_thread()
    # Where a timer rings, it rings first: it must not ring once more while the error of `expired` is on its way.
    asked = end + 1 if in_main else end
    _ends.append(asked)
    handler = signal.signal(signal.SIGALRM, _raise) if in_main else None
    before = signal.setitimer(signal.ITIMER_REAL, seconds)[0] if in_main else 0.0
    try:
        try:
            yield
        finally:
            if in_main:  # an alarm that comes while another error is on its way is that error's cause too
                signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as error:
        if isinstance(error, _Alarm) or (isinstance(error, Exception) and time.monotonic() >= end):
            raise TimeIsUpError(f"no end within {seconds:g} s") from error
        raise
    finally:
        _ends.remove(asked)
        if in_main:
            signal.signal(signal.SIGALRM, handler)
            if before:
                signal.setitimer(signal.ITIMER_REAL, max(before - seconds + end - time.monotonic(), 0.001))


def _raise(*_: object) -> None:
    raise _Alarm
