"""Reading input that nobody vouches for: first in a child, so that a crash of the native parser is an error.

The child does all that reading does (parse, verify, jaxlib's passes, our walk). Only what it came back from is read
again here. What it refused in words is refused here in the same words.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import selectors
import signal
import sys
import time
import warnings
from collections.abc import Callable

from opscope.compiler.errors import CompilerInputError, StageFailure

SECONDS = 60.0
"""What reading one module may take; whole models of a hundred megabytes take a few."""
MEMORY = 32 << 30
"""Address space of the child."""


class ParserCrashed(CompilerInputError):  # noqa: N818  (what happened, as the record names it)
    """The native parser did not come back from the input: a signal, too long, or too much memory."""

    kind = "parser-crashed"


def vet(module: bytes | str, seconds: float = SECONDS, read: Callable[[bytes | str], object] | None = None) -> None:
    """Reads `module` in a child and forgets it. Raises ParserCrashed where the child does not come back.

    `read` stands in for `opscope.compiler.ir.door.read`.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    ready, done = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that the child does not have and does not need
        child = os.fork()
    if child == 0:
        _read_and_leave(module, read)
    os.close(done)
    status = None
    try:
        status = _wait(child, ready, seconds)
    except BaseException:  # an interrupt leaves no child behind
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise
    finally:
        os.close(ready)
    if status is None:
        raise _crashed(f"not back after {seconds:g} s")
    if os.WIFSIGNALED(status):
        raise _crashed(signal.Signals(os.WTERMSIG(status)).name)
    if os.WEXITSTATUS(status):
        raise _crashed(f"exit code {os.WEXITSTATUS(status)}")


def _crashed(how: str) -> ParserCrashed:
    return ParserCrashed(f"module: expected StableHLO that the parser comes back from, got {how}: parser-crashed")


def _read_and_leave(module: bytes | str, read: Callable[[bytes | str], object] | None) -> None:
    """What the child does; it never returns. The pipe's end closes when it is gone."""
    code = 70
    try:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.disable()
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # a native abort prints its stack
            os.dup2(quiet, stream)
        if read is None:
            from opscope.compiler.ir.door import read
        with contextlib.suppress(CompilerInputError, StageFailure):
            read(module)
        code = 0
    except Exception:  # noqa: BLE001  Python's own errors are met again, and told, in the parent
        code = 0
    finally:
        os._exit(code)


def _wait(child: int, ready: int, seconds: float) -> int | None:
    """The child's status; None where it had to be ended."""
    with selectors.DefaultSelector() as selector:
        selector.register(ready, selectors.EVENT_READ)
        late = not selector.select(seconds)
    if late:
        os.kill(child, signal.SIGKILL)
    until = time.monotonic() + 10
    while True:
        found, status = os.waitpid(child, 0 if late else os.WNOHANG)
        if found:
            return None if late else status
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            late = True
        time.sleep(0.001)
