"""What a process and its fork server say to each other: requests with descriptors, and words about a child."""

from __future__ import annotations

from typing import NamedTuple

LARGEST_REQUEST = 1 << 20
"""Bytes of a request; its environment is most of it."""

NO_FORK = 0
"""The answer in place of a child's number: a module has started threads. The server forks no more then."""

ASK_STRAYS, NO_STRAYS = b"strays", b"none left"
"""What asks the server to kill the processes that ended children have left behind, and its answer."""

END = b"end"
"""What ends a server at once, and its children with it."""

SHARED = "shared"
"""The word with which a server is one of several processes."""


class Request(NamedTuple):
    """The descriptors of a request, in their order."""

    connection: int
    output: int
    answers: int
    folder: int
