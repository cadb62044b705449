"""The door of a server that has children of several processes (`fork_server.Server`).

The first process that needs it starts it, whichever that is, and it ends with its owner. So what it loads is loaded
once for all of them, however many ask and in which order.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from opscope.base.children import fork_request
from opscope.base.children.sender import short_address

WAITING = 256
"""So many processes may wait at the door while the server loads."""
SETTINGS = ".settings"
"""How the file ends in which a server's settings are, beside its door."""
_SECONDS_TO_END = 10.0


@dataclass(frozen=True)
class Shared:
    """A server of several processes."""

    folder: str
    """A folder that these have in common, and nobody else can write to."""
    name: str
    """Its name in the folder, that of a file."""
    owner: int
    """The process with which it ends."""

    @property
    def log(self) -> Path:
        """What the server itself writes, and what it loads."""
        return Path(self.folder, f"{self.name}.log")


def connect(shared: Shared, settings: str, environment: Mapping[str, str]) -> socket.socket | None:
    """A connection to the server, which is started with this environment if there is none.

    None if it has been started with other settings. Raises OSError.
    """
    kept = Path(shared.folder, f"{shared.name}{SETTINGS}")
    with _alone(shared), short_address(shared.folder, shared.name) as address:
        requests = _connected(address)
        if requests is not None:
            if kept.read_text(encoding="utf-8") == settings:
                return requests
            requests.close()
            return None
        with contextlib.suppress(FileNotFoundError):  # of a server that has ended
            Path(shared.folder, shared.name).unlink()
        kept.write_text(settings, encoding="utf-8")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door, shared.log.open("ab") as log:
            door.bind(address)
            door.listen(WAITING)
            popen = fork_request.start(door, shared.owner, 0, environment, fork_request.DOOR, log=log)
            popen.returncode = 0  # it may outlive this process, which does not wait for it
            return _connected(address)


def end(shared: Shared) -> None:
    """Ends the server, if there is one, and waits for its end."""
    with contextlib.suppress(OSError), _alone(shared), short_address(shared.folder, shared.name) as address:
        requests = _connected(address)
        if requests is not None:
            with requests:
                requests.settimeout(_SECONDS_TO_END)
                requests.send(fork_request.END)
                requests.recv(1)  # it never writes: that is its end


def _connected(address: str) -> socket.socket | None:
    """A connection to whoever listens there; None if nobody does."""
    requests = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        requests.connect(address)
    except (FileNotFoundError, ConnectionRefusedError):
        requests.close()
        return None
    except BaseException:
        requests.close()
        raise
    return requests


@contextlib.contextmanager
def _alone(shared: Shared) -> Iterator[None]:
    """Waits until no other process is at the door, so that two do not both start a server."""
    with Path(shared.folder, f"{shared.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
