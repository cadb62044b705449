"""Forks of this process that work together at one thing, for code that is already loaded and has no threads.

They report to this process, which does nothing else meanwhile. Each dies with it. If one dies, none goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from opscope.base.children.parent_death import die_with_parent

_FAILED = 70
"""The exit code of a fork that neither came to its end nor raised what it could report."""
_PIECE = 1 << 16
_RAISED = "raised in fork"
"""Key of the message of a fork that an exception ended."""


class ForkDied(Exception):
    """A fork has died."""

    def __init__(self, number: int, code: int) -> None:
        super().__init__(f"fork {number}: {code}")
        self.number = number
        self.code = code
        """Its exit code, or the number of the signal below zero."""


class RaisedInFork(Exception):
    """A fork has raised an exception: its type and its first line. The traceback was printed there."""


def in_forks(
    count: int,
    work: Callable[[int, Callable[[Any], None]], None],
    on_message: Callable[[int, Any], bool | None],
    keep: Sequence[int] = (),
) -> None:
    """Has `count` forks call `work` with their number and what sends a message (JSON), until all have come to an end.

    `on_message` gets each message with the fork's number; once it returns True, all that is left of the forks is ended.
    Files that this process has open are closed in them, except the standard streams and `keep`. Raises ForkDied,
    RaisedInFork, an OSError that a fork raised, and what `on_message` raises; no fork is left then.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent, forks, selector = os.getpid(), list[int](), selectors.DefaultSelector()
    try:
        for number in range(count):
            ours, theirs = os.pipe()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about threads of libraries, which wait for work
                child = os.fork()
            if child == 0:
                _work(number, work, theirs, parent, keep)
            os.close(theirs)
            forks.append(child)
            selector.register(ours, selectors.EVENT_READ, (number, bytearray()))
        while selector.get_map():
            for key, _ in selector.select():
                number, held = key.data
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    code = os.waitstatus_to_exitcode(os.waitpid(forks[number], 0)[1])
                    forks[number] = 0
                    if code:
                        raise ForkDied(number, code)
                held += piece
                *lines, rest = held.split(b"\n")
                held[:] = rest
                for line in lines:
                    if on_message(number, _message(line)):
                        return
    finally:
        for child in filter(None, forks):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
        for key in list(selector.get_map().values()):
            os.close(key.fd)
        selector.close()


def end_as(code: int) -> NoReturn:
    """Ends this process as one of its forks ended, whose stack was printed: its parent need not know of forks."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0:
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _message(line: bytes) -> Any:
    """A message of a fork. Raises what it says that was raised."""
    message = json.loads(line)
    if isinstance(message, dict) and _RAISED in message:
        errno, text = message[_RAISED]
        raise RaisedInFork(text) if errno is None else OSError(errno, text)
    return message


def _work(
    number: int, work: Callable[[int, Callable[[Any], None]], None], pipe: int, parent: int, keep: Sequence[int]
) -> NoReturn:
    """The fork: works, says what it raises, and never returns."""
    code = _FAILED
    try:
        die_with_parent(parent)
        last = 2
        for descriptor in sorted({*keep, pipe}):
            os.closerange(last + 1, descriptor)
            last = descriptor
        os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))

        def send(message: Any) -> None:
            data = json.dumps(message).encode() + b"\n"
            while data:
                data = data[os.write(pipe, data) :]

        try:
            work(number, send)
        except OSError as error:
            send({_RAISED: [error.errno, error.strerror or str(error)]})
        except Exception as error:  # noqa: BLE001 - raised again in the parent
            with contextlib.suppress(OSError, ValueError):
                traceback.print_exc()
            text = str(error).strip().partition("\n")[0]
            send({_RAISED: [None, f"{type(error).__name__}: {text}"]})
        code = 0
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
