"""Framed JSON: the messages between a process and its child. A magic word, a length, a JSON object; no pickle."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

_MAGIC = b"OPSC"
_HEADER = struct.Struct(">4sI")
LIMIT = 64 * 1024 * 1024
"""Longest frame in bytes; a longer one is garbage."""


class ProtocolError(Exception):
    """The other side sent bytes that are not a frame."""


def encode(message: dict[str, Any]) -> bytes:
    """One frame."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return _HEADER.pack(_MAGIC, len(body)) + body


class Decoder:
    """Collects bytes as they arrive and returns the complete frames. Raises ProtocolError at the first bad byte."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yields the frames that `data` completes, each before the bytes after it are checked."""
        self._buffer += data
        while self._buffer:
            head = bytes(self._buffer[: len(_MAGIC)])
            if not _MAGIC.startswith(head):
                raise ProtocolError(f"frame: expected {_MAGIC!r}, got {bytes(self._buffer[:16])!r}")
            if len(self._buffer) < _HEADER.size:
                return
            size = _HEADER.unpack_from(self._buffer)[1]
            if size > LIMIT:
                raise ProtocolError(f"frame: expected at most {LIMIT} bytes, got {size}")
            end = _HEADER.size + size
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            yield _decode(body)


def _decode(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except ValueError as error:
        raise ProtocolError(f"frame: expected JSON, got {body[:40]!r} ({error})") from error
    if not isinstance(message, dict):
        raise ProtocolError(f"frame: expected an object, got {type(message).__name__}")
    return message
