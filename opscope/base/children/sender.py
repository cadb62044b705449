"""Sockets between processes of one machine: their addresses, and who wrote what is read, as the kernel testifies."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterator

_CREDENTIALS = struct.Struct("3i")
"""`struct ucred` of the kernel: process, user, group."""
MOST = 1 << 16
"""Bytes that are read at once."""
_KNOWN = hasattr(socket, "SO_PASSCRED") and hasattr(socket, "SCM_CREDENTIALS")


def name_senders(connection: socket.socket) -> None:
    """Makes the kernel add the sender to whatever this socket receives. Only Linux can do so."""
    if _KNOWN:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def receive_from(connection: socket.socket, pid: int) -> bytes:
    """Returns the next bytes that process `pid` sent; empty at the end. Drops what a forked copy of it wrote.

    Raises what `socket.recv` raises.
    """
    if not _KNOWN:
        return connection.recv(MOST)
    while True:
        data, ancillary, _, _ = connection.recvmsg(MOST, socket.CMSG_SPACE(_CREDENTIALS.size))
        if not data:
            return data
        senders = [
            _CREDENTIALS.unpack_from(value)[0]
            for level, kind, value in ancillary
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(value) >= _CREDENTIALS.size
        ]
        if senders == [pid]:
            return data


@contextlib.contextmanager
def short_address(folder: str, name: str) -> Iterator[str]:
    """The address of a socket in a folder, which is short: the kernel takes 107 characters, a path may have more."""
    if sys.platform != "linux":
        yield f"{folder}/{name}"
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
