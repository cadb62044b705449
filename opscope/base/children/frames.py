"""Framed JSON: the messages between a process and its child, and what is said to a server of forks. No pickle.

A frame is a magic word, the token of the connection, a length and a JSON object, behind which the message's `text`
follows as it is after a newline, if it has one: what is long, and JSON already, is not made JSON once more. The token
is drawn for each child, so that bytes that another child was to get, or that something else writes, are no frame here.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import subprocess

Message = dict[str, Any]

TEXT = "text"
"""Key of a message's long text."""
RETURNED, RAISED = "returned", "raised"
"""Keys of a child's last message: its function's return value, or an exception in one line and its traceback."""

_MAGIC = b"OPSC"
_SIZE = struct.Struct(">I")
TOKEN_LENGTH = 8
LIMIT = 64 * 1024 * 1024
"""Longest frame in bytes; a longer one is garbage."""


class ProtocolError(Exception):
    """The other side sent bytes that are not a frame."""


def new_token() -> bytes:
    """A token for one connection."""
    return os.urandom(TOKEN_LENGTH)


def encode(message: dict[str, Any], token: bytes = b"") -> bytes:
    """One frame. Raises ProtocolError if the message is too long for one."""
    text = message.get(TEXT)
    if isinstance(text, str):
        message = {key: value for key, value in message.items() if key != TEXT}
    body = json.dumps(message, separators=(",", ":")).encode()
    if isinstance(text, str):
        body = b"\n".join((body, text.encode("utf-8", "surrogatepass")))
    if len(body) > LIMIT:
        raise ProtocolError(f"frame: expected at most {LIMIT} bytes, got {len(body)}")
    return _MAGIC + token + _SIZE.pack(len(body)) + body


class Decoder:
    """Collects bytes as they arrive and returns the complete frames. Raises ProtocolError at the first bad byte."""

    def __init__(self, token: bytes = b"") -> None:
        self._start = _MAGIC + token
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yields the frames that `data` completes, each before the bytes after it are checked."""
        self._buffer += data
        while self._buffer:
            head = bytes(self._buffer[: len(self._start)])
            if not self._start.startswith(head):
                expected = _MAGIC if not _MAGIC.startswith(head[: len(_MAGIC)]) else "the token of this child"
                raise ProtocolError(f"frame: expected {expected!r}, got {bytes(self._buffer[:16])!r}")
            begin = len(self._start) + _SIZE.size
            if len(self._buffer) < begin:
                return
            size = _SIZE.unpack_from(self._buffer, len(self._start))[0]
            if size > LIMIT:
                raise ProtocolError(f"frame: expected at most {LIMIT} bytes, got {size}")
            end = begin + size
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[begin:end])
            del self._buffer[:end]
            yield _decode(body)


def _decode(body: bytes) -> dict[str, Any]:
    head, newline, text = body.partition(b"\n")
    try:
        message = json.loads(head)
        if newline and isinstance(message, dict):
            message[TEXT] = text.decode("utf-8", "surrogatepass")
    except ValueError as error:
        raise ProtocolError(f"frame: expected JSON, got {body[:40]!r} ({error})") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"frame: expected an object, got {type(message).__name__}")
    return message


# --- a server of forks: requests with descriptors, and answers

LARGEST_REQUEST = 1 << 20
"""Bytes of a request; its environment is most of it."""

NO_FORK = 0
"""The answer in place of a child's number: a module has started threads. The server forks no more then."""

OUTDATED = -1
"""The same where files that the server has loaded were edited since: another server is to fork."""

ASK_STRAYS, NO_STRAYS = b"strays", b"none left"
"""What asks the server to kill the processes that ended children have left behind, and its answer."""

END = b"end"
"""What ends a server at once, and its children with it."""


class Request(NamedTuple):
    """The descriptors of a request, in their order."""

    connection: int
    output: int
    answers: int
    folder: int


def start_server(
    asking: socket.socket, owner: int, idle: float, environment: Mapping[str, str], log: Any = None
) -> subprocess.Popen[bytes]:
    """Starts a server for the socket's other end (`fork_server.main`); what it writes goes to `log`. Raises OSError."""
    import subprocess

    command = [sys.executable, "-P", "-m", "opscope.base.children.fork_server", str(asking.fileno()), str(owner)]
    return subprocess.Popen(
        [*command, str(idle)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if log is None else log,
        stderr=subprocess.DEVNULL if log is None else log,
        pass_fds=(asking.fileno(),),
        env=dict(environment),
        cwd="/",
        start_new_session=True,
    )
