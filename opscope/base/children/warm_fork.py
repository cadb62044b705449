"""A fork of this process that takes one piece of data after another, for code that is already loaded and may crash.

It says only that it came back from each piece. A fork costs tens of milliseconds, since the kernel copies the tables of
a process's memory; a piece for a fork that is there costs a fraction of one.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable

from opscope.base.children.ending import Cause, ChildEnded, Ending, of_return_code
from opscope.base.children.fork import die_quietly
from opscope.base.children.process_tree import usage

_POLL_SECONDS = 0.05
"""How often memory is checked."""
_HEAD = struct.Struct("<Qd")
"""What comes before the data: its size, and the seconds that it may take."""
_MARGIN = 1.0
"""Seconds after its time at which the fork ends itself, in case its parent is gone."""
_MOST_BYTES = 64 << 20
"""After so much data the next piece gets a new fork, since parsers keep what they have interned."""
_RETURNED = b"\1"


class WarmFork:
    """The fork, made when it is first needed and again after it has ended. Safe for threads."""

    def __init__(self, function: Callable[[bytes], object]) -> None:
        """`function` is called in the fork. A Python exception counts as a normal return: the fork survived it."""
        self._function = function
        self._lock = threading.Lock()
        self._owner = self._pid = 0
        self._socket: socket.socket | None = None
        self._taken = self._before = 0

    def run(self, data: bytes, *, seconds: float, memory: int | None = None) -> Ending:
        """Has the fork call the function with `data`, and returns how that ended.

        `memory` is how many bytes the fork may hold more than it began with: it shares what this process holds.
        """
        with self._lock:
            connection, returned = self._ready(), False
            try:
                ending = self._answer(connection, data, seconds, memory)
                returned = ending.ok
            except ChildEnded as ended:
                ending = ended.ending
            finally:  # an interrupt leaves no fork behind that works at an older piece
                if not returned:
                    self._end()
            return ending

    def close(self) -> None:
        """Ends the fork, if there is one."""
        with self._lock:
            self._end()

    def _ready(self) -> socket.socket:
        """The connection to a fork that waits for data."""
        if self._owner != os.getpid():  # this is itself a fork, and the fork that it knows is another's
            if self._socket is not None:
                self._socket.close()
            self._socket, self._pid = None, 0
        if self._socket is not None and (self._taken > _MOST_BYTES or _is_ready(self._socket, 0)):
            self._end()  # what can be read while nothing was asked is its end
        if self._socket is None:
            self._socket = self._fork()
        return self._socket

    def _fork(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads, which the fork neither has nor needs
            pid = os.fork()
        if pid == 0:
            _serve(theirs, self._function)
        theirs.close()
        self._owner, self._pid, self._taken = os.getpid(), pid, 0
        self._before = usage(pid)[0]
        return ours

    def _answer(self, connection: socket.socket, data: bytes, seconds: float, memory: int | None) -> Ending:
        """Sends `data` and waits. Raises ChildEnded if the fork ends, is late or holds too much."""
        end = time.monotonic() + seconds
        self._taken += len(data)
        view = memoryview(_HEAD.pack(len(data), seconds) + data)
        connection.setblocking(False)
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise ChildEnded(Ending(Cause.TIMEOUT, f"no answer within {seconds:g} s"))
            if not _is_ready(connection, min(left, _POLL_SECONDS), writable=bool(view)):
                held = usage(self._pid)[0] - self._before
                if memory is not None and held > memory:
                    raise ChildEnded(Ending(Cause.MEMORY, f"{held >> 20} MiB resident, {memory >> 20} MiB allowed"))
                continue
            try:
                if view:
                    view = view[connection.send(view) :]
                    continue
            except BlockingIOError:
                continue
            except OSError:
                view = view[:0]  # the fork has ended, as the next read tells
            try:
                answer = connection.recv(1)
            except OSError:
                answer = b""
            if answer == _RETURNED:
                return Ending(Cause.RETURNED, "returned")
            raise ChildEnded(self._how_it_ended())

    def _how_it_ended(self) -> Ending:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)  # of no effect on one that ended by itself
        try:
            _, status = os.waitpid(self._pid, 0)
        except ChildProcessError:  # somebody else has asked
            return Ending(Cause.EXIT, "ended", 1)
        self._pid = 0
        return of_return_code(os.waitstatus_to_exitcode(status))

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._pid and self._owner == os.getpid():
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
        self._socket, self._pid = None, 0


def _is_ready(connection: socket.socket, seconds: float, writable: bool = False) -> bool:
    """Whether the connection can be read from (or, with `writable`, also written to) within some seconds."""
    poll = select.poll()  # `select.select` takes no descriptor above 1023
    poll.register(connection, select.POLLIN | (select.POLLOUT if writable else 0))
    return bool(poll.poll(seconds * 1000))


def _serve(connection: socket.socket, function: Callable[[bytes], object]) -> None:
    """The fork: takes data until its parent closes the connection; never returns."""
    try:
        _forget_signals()
        die_quietly()
        descriptor = os.dup2(connection.detach(), 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # files and locks of the parent would stay open with the fork
        connection = socket.socket(fileno=descriptor)
        connection.setblocking(True)
        while head := _exactly(connection, _HEAD.size):
            size, seconds = _HEAD.unpack(head)
            signal.setitimer(signal.ITIMER_REAL, seconds + _MARGIN)
            data = _exactly(connection, size)
            with contextlib.suppress(Exception):
                function(data)
            signal.setitimer(signal.ITIMER_REAL, 0)
            del data
            connection.sendall(_RETURNED)
    finally:
        os._exit(0)


def _forget_signals() -> None:
    """Takes no handler of the parent along. Ctrl-C is the parent's: it ends the fork if it wants to."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])


def _exactly(connection: socket.socket, size: int) -> bytes:
    """The next `size` bytes; empty if the parent has closed its end."""
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 20))
        if not piece:
            return b""
        data += piece
    return bytes(data)
