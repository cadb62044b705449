"""How a fork server starts, and what a process and it say to each other: requests with descriptors, and answers."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

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

DOOR = "door"
"""The word with which a server has a door."""


class Request(NamedTuple):
    """The descriptors of a request, in their order."""

    connection: int
    output: int
    answers: int
    folder: int


def start(
    asking: socket.socket, owner: int, idle: float, environment: Mapping[str, str], *words: str, log: Any = None
) -> subprocess.Popen[bytes]:
    """Starts a server for the socket's other end (`fork_server.main`). Raises OSError."""
    command = [sys.executable, "-P", "-m", "opscope.base.children.fork_server", str(asking.fileno()), str(owner)]
    return subprocess.Popen(
        [*command, str(idle), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if log is None else log,
        stderr=subprocess.DEVNULL if log is None else log,
        pass_fds=(asking.fileno(),),
        env=dict(environment),
        cwd="/",
        start_new_session=True,
    )
