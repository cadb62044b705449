"""The child's side: `python -P -m opscope.base.children.inside FD PARENT FUNCTION`, or `run` in a forked process.

FUNCTION is written `package.module:name` and takes a `Parent`. The process dies with its parent. If a signal kills it,
its stack goes to the log. The connection begins with the token of its frames, then, on a line, the folder of a cgroup
that the process joins, or nothing. Daemons that it starts become its own children (`become_reaper`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import importlib
import os
import socket
import sys
import termios
import traceback
from collections.abc import Callable
from typing import Any

from opscope.base import gc_pause, jax_plugins, reading
from opscope.base.children import frames
from opscope.base.children.frames import RAISED, RETURNED
from opscope.base.children.parent_death import become_reaper, die_with_parent

_children: set[int] = set()
"""The number of this process, if it is such a child; a fork of it is none."""

_FORKED = 71
"""Exit code of a forked copy that tried to answer."""


class Parent:
    """The child's end of the connection: whole messages out, one message at a time in."""

    def __init__(self, connection: socket.socket, token: bytes = b"") -> None:
        self._connection, self._token, self._decoder = connection, token, frames.Decoder(token)
        self._waiting: list[dict[str, Any]] = []
        self._process = os.getpid()

    @property
    def descriptor(self) -> int:
        """The file descriptor of the connection; -1 if it was closed."""
        return self._connection.fileno()

    def send(self, message: dict[str, Any]) -> None:
        """Writes one message, whole. A forked copy of this process ends here: the answer is not its to give."""
        if os.getpid() != self._process:
            os._exit(_FORKED)
        self._connection.sendall(frames.encode(message, self._token))

    def unread(self) -> int:
        """Bytes that this process has sent and its parent has not read; 0 on other systems than Linux.

        Raises OSError if the connection was closed.
        """
        if sys.platform != "linux":
            os.fstat(self._connection.fileno())
            return 0
        return int.from_bytes(fcntl.ioctl(self._connection.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)

    def receive(self) -> dict[str, Any] | None:
        """The next message; None once the parent has closed its end."""
        while not self._waiting:
            data = self._connection.recv(1 << 16)
            if not data:
                return None
            self._waiting.extend(self._decoder.feed(data))
        return self._waiting.pop(0)

    def task(self) -> dict[str, Any]:
        """The message that a call begins with. Raises EOFError if the parent closed its end instead."""
        task = self.receive()
        if task is None:
            raise EOFError("child: expected a task, got the end of the connection")
        return task


def _preamble(endpoint: socket.socket) -> tuple[bytes]:
    """Reads what comes before the first frame, joins the cgroup that it names, and returns the token."""
    line = b""
    while not line.endswith(b"\n"):
        byte = endpoint.recv(1)
        if not byte:
            raise SystemExit(1)  # the parent has closed its end
        line += byte
    token, _, folder = line.decode().strip().partition(" ")
    if folder:
        with contextlib.suppress(OSError), open(f"{folder}/cgroup.procs", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("0")  # this process
    return (bytes.fromhex(token),)


def last_message(parent: Parent, function: str | Callable[[Parent], Any]) -> dict[str, Any]:
    """Runs a function, or the one of a name, and returns the last message for its parent."""
    try:
        with gc_pause.paused():  # nothing that an import makes is garbage
            called = _named(function) if isinstance(function, str) else function
        return {RETURNED: called(parent)}
    except Exception as error:  # noqa: BLE001  the parent decides what an exception means
        traceback.print_exc()
        return {RAISED: [traceback.format_exception_only(error)[-1].partition("\n")[0], traceback.format_exc()]}


def _named(function: str) -> Any:
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)


def is_child() -> bool:
    """Whether this process is such a child: its parent says how it ends, so it needs none of its own to crash."""
    return os.getpid() in _children


def count_as_child() -> None:
    """Has `is_child` say so of this process."""
    _children.add(os.getpid())


def run(descriptor: int, parent: int | None, function: str | Callable[[Parent], Any]) -> None:
    """Runs FUNCTION for the connection `descriptor`, as a child that dies with process `parent`. Does not return.

    Without `parent`, it ends when it next reads from its parent, or writes to it.
    """
    if parent is not None:
        die_with_parent(parent)
    become_reaper()
    # The module may be loaded twice: as `__main__` here, and by its name for whoever asks `is_child`.
    importlib.import_module("opscope.base.children.inside").count_as_child()
    faulthandler.enable()
    jax_plugins.keep_out()
    reading.begin()
    endpoint = socket.socket(fileno=descriptor)
    endpoint.set_inheritable(False)  # programs that the function starts get no hold of it
    connection = Parent(endpoint, *_preamble(endpoint))
    last = last_message(connection, function)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    with contextlib.suppress(OSError, frames.ProtocolError):
        connection.send(last)
        # As long as this process exists, the parent can find everything that it started.
        while connection.receive() is not None:
            pass
    # Leaves without cleaning up, as frameworks' threads and destructors may hang or abort; all output is written.
    os._exit(int(RAISED in last))


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
