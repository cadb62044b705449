"""Children that are forks of a server which has their modules already (`fork_server`), where that makes no difference.

Each process has at most one server, started when it is first needed, and one more for each name that children come with
whose modules are to be in no others. `fork` returns None where a child must be a new
interpreter: on other systems than Linux, where the child's settings differ in what an interpreter or a library reads
once at its start, where its module starts threads, where coverage is measured, or where no server can be started.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import resource
import select
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from opscope.base.children import frames, process_tree
from opscope.base.children.process import Program, child_environment

_OURS = "opscope."
"""Only modules of our own are imported by the server: those of others may do anything when they are imported."""

_READ_AT_START = (
    "PYTHON",
    "LD_",
    "LC_",
    "LANG",
    "TZ",
    "MALLOC_",
    "GLIBC_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "NPROC",
    "NPY_",
    "XLA_",
    "JAX_",
    "TF_",
    "FAKETIME",
    "ASAN_",
    "UBSAN_",
    "COVERAGE_",
    "COV_",
)
"""How the variables begin that an interpreter, the C library or an extension module reads once, when it starts."""

_MEASURED = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
"""Variables by which each new interpreter measures coverage, as a fork would not."""

_LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))
_PATIENCE = 120.0
"""Seconds that a server may take to import what a child needs. It is ended after them, and its children with it."""
_LOADING = 600.0
"""The same of one that stays: it may be loading a large library on a busy machine."""
_LOOK = 0.5
"""Seconds between two looks whether a server that reports nothing was stopped."""
_IDLE = 60.0
"""Seconds without a child after which a server with a name ends: what it has loaded is large."""
_KILLED = -9
"""The return code of a child whose server has ended: it dies with it."""


class Forked(Program):
    """A fork of the server."""

    def __init__(self, pid: int, answers: socket.socket, mark: str) -> None:
        self.pid, self._answers, self._mark = pid, answers, mark
        self.server = process_tree.parent_of(pid)
        """The process of which it is a fork; 0 if it has ended already."""
        self._code: int | None = None

    def open_handle(self) -> int | None:
        """A new file descriptor that is readable once the program has ended."""
        return os.dup(self._answers.fileno())

    def wait(self, seconds: float | None) -> int | None:
        """Returns the return code (negative for a signal), or None if the program still runs after `seconds`."""
        while seconds is None and self._code is None and not _is_readable(self._answers, _LOOK):
            process_tree.wake(self.server)  # a child that has stopped its server is not reported
        if self._code is None and _is_readable(self._answers, seconds):
            # Only looked at, so that the handle stays readable.
            answer = self._answers.recv(64, socket.MSG_PEEK)
            self._code = int(answer) if answer else _KILLED
        return self._code

    def is_open(self) -> bool:
        """Whether `kill` has not been called."""
        return self._answers.fileno() >= 0

    def kill(self) -> None:
        """Ends the program and all its descendants at once. If it has already ended, ends what it has left behind."""
        if not self.is_open():
            return
        super().kill()
        self._answers.close()

    def _kill_strays(self) -> None:
        process_tree.kill_marked(self._mark)
        # What the program forked has no mark, since Linux shows an environment as it was when a program began.
        with contextlib.suppress(OSError):
            self._answers.recv(64)  # the return code, which is known
            self._answers.send(frames.ASK_STRAYS)
            process_tree.wake(self.server)
            self._answers.recv(64)


class OutdatedError(OSError):
    """A server has loaded files that were edited since."""


class _Kind(NamedTuple):
    """What distinguishes a server from others."""

    idle: float = 0.0
    """Seconds without a child after which it ends; 0 for never."""
    patience: float = _PATIENCE
    log: Path | None = None
    """The file for what it writes itself; None for none."""


class _Server:
    """The connection to a server that has children of this process."""

    def __init__(self, requests: socket.socket, popen: subprocess.Popen[bytes], patience: float) -> None:
        """`popen` is the server's process, which may take so many seconds to import what a child needs."""
        self.settings, self._requests, self._popen, self._patience = settings_text(), requests, popen, patience
        self.pid = popen.pid
        self._children: weakref.WeakSet[Forked] = weakref.WeakSet()
        self._requests.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, frames.LARGEST_REQUEST)

    @classmethod
    def start(cls, environment: Mapping[str, str], kind: _Kind) -> _Server:
        """Starts a server. Raises OSError if it cannot be started."""
        requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, contextlib.ExitStack() as stack:
                log = None if kind.log is None else stack.enter_context(kind.log.open("ab"))
                popen = frames.start_server(theirs, os.getpid(), kind.idle, environment, log)
        except OSError:
            requests.close()
            raise
        return cls(requests, popen, kind.patience)

    def get_ready(self, task: dict[str, Any]) -> None:
        """Has the server import what a child will need, without waiting for it. Raises OSError if it has ended."""
        self._requests.send(json.dumps(task).encode())

    def fork(self, task: dict[str, Any], connection: int, output: int, mark: str) -> Forked | None:
        """Has the server fork a child. None if it will not. Raises OSError if it has ended or is outdated."""
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            request = frames.Request(connection, output, theirs.fileno(), folder)
            try:
                socket.send_fds(self._requests, [json.dumps(task).encode()], list(request))
            except OSError:
                ours.close()
                raise
            finally:
                theirs.close()
        finally:
            os.close(folder)
        process_tree.wake(self.pid)
        try:
            answer = ours.recv(64) if _is_readable(ours, self._patience) else b""
        except ConnectionError:
            answer = b""
        if answer and int(answer) == frames.OUTDATED:
            ours.close()
            raise OutdatedError("the fork server has loaded files that were edited since")
        if answer and int(answer) != frames.NO_FORK:
            child = Forked(int(answer), ours, mark)
            self.pid = child.server or self.pid
            self._children.add(child)
            return child
        ours.close()
        if not answer:
            self._end()
            raise ConnectionResetError("the fork server has ended, or is stuck")
        return None

    def has_ended(self) -> bool:
        """Whether the server has ended. Its children have ended with it."""
        return self._popen.poll() is not None

    def has_children(self) -> bool:
        """Whether a child of the server is not yet done with."""
        return any(child.is_open() for child in self._children)

    def close(self) -> None:
        """Ends the server, and with it the children that it still has."""
        self._requests.close()
        self._end()

    def _end(self) -> None:
        """Ends a server that may be importing."""
        self._popen.kill()
        self._popen.wait()

    def forget(self) -> None:
        """Leaves a server that is another process's, of which this one is a fork."""
        self._requests.close()
        self._popen.returncode = 0  # it is not ours to wait for


class _Place:
    """Where the servers of a process are kept: the one that forks, and those that still have children."""

    def __init__(self, kind: _Kind) -> None:
        self.lock = threading.Lock()
        self.server: _Server | None = None
        self._kind = kind
        self._replaced: list[_Server] = []
        self.refused: set[tuple[str, ...]] = set()
        """Modules, with the calls ahead of them, that start threads."""

    def ready(self, environment: Mapping[str, str]) -> _Server | None:
        """The server, which has the settings of this process as they are now; None if a child needs others."""
        usual = child_environment()
        if _read_at_start(environment) != _read_at_start(usual):
            return None
        if self.server is not None and (self.server.settings != settings_text() or self.server.has_ended()):
            self.replace()
        if self.server is None:
            unmarked = {name: value for name, value in usual.items() if not _is_mark(name)}
            self.server = _Server.start(unmarked, self._kind)
        return self.server

    def replace(self) -> None:
        """Has the next child get another server. The one of today ends once its children are done with."""
        if self.server is not None:
            self._replaced.append(self.server)
            self.server = None
        for server in [each for each in self._replaced if not each.has_children()]:
            self._replaced.remove(server)
            server.close()

    def close(self) -> None:
        """Ends the servers and their children."""
        servers = [*self._replaced, self.server]
        self.server, self._replaced = None, []
        for server in servers:
            if server is not None:
                server.close()

    def processes(self) -> list[int]:
        """The ids of the servers that run."""
        return [each.pid for each in (*self._replaced, self.server) if each is not None and not each.has_ended()]

    def after_fork(self) -> None:
        """Has a fork of this process begin without a server."""
        for server in (*self._replaced, self.server):
            if server is not None:
                server.forget()
        self.lock, self.server, self._replaced = threading.Lock(), None, []


_places: dict[str, _Place] = {"": _Place(_Kind())}
"""The places of the servers: that of most children, and of those that have a name."""


def servers() -> frozenset[int]:
    """The ids of the servers of this process."""
    return frozenset(pid for place in _places.values() for pid in place.processes())


def _close() -> None:
    for place in _places.values():
        place.close()


def _after_fork() -> None:
    for place in _places.values():
        place.after_fork()


atexit.register(_close)
if sys.platform == "linux":
    os.register_at_fork(after_in_child=_after_fork)


def fork(
    function: str,
    ends: tuple[int, int],
    environment: Mapping[str, str],
    mark: str,
    ahead: Sequence[str] = (),
    server_name: str = "",
) -> Forked | None:
    """Starts `function`, written `package.module:name`, in a fork of the server; None where it needs an interpreter.

    `ends` are the file descriptors of its connection and its output, `mark` the name of a variable of `environment`
    that no other child has. `ahead` is a function, written likewise, and its arguments, which the server calls once
    before it forks. With `server_name`, that is a server of this name.
    """
    module = function.partition(":")[0]
    if not _can_fork(module, environment):
        return None
    place = _place_of(server_name)
    with place.lock:
        needs = module, *ahead
        if needs in place.refused:
            return None
        task = {"function": function, "ahead": list(ahead), "environment": dict(environment)}
        try:
            server = place.ready(environment)
            try:
                forked = server and server.fork(task, *ends, mark)
            except OutdatedError:
                place.replace()
                server = place.ready(environment)
                forked = server and server.fork(task, *ends, mark)
        except (OSError, ValueError):  # no process, descriptor or folder, a name that is no text, no server any more
            if place.server is not None and place.server.has_ended():
                place.replace()
            return None
        if server is not None and forked is None:
            place.refused.add(needs)
            place.replace()
        return forked


def _place_of(server_name: str) -> _Place:
    """The place of a server; the one without a name is that of most children."""
    return _places.get(server_name) or _places.setdefault(server_name, _Place(_Kind(_IDLE)))


def keep(server_name: str, log: Path) -> None:
    """Has the server of a name stay until `end`: what it loads is large, and loaded once. What it writes goes to a
    file."""
    if server_name not in _places:
        _places[server_name] = _Place(_Kind(0.0, _LOADING, log))


def end(server_name: str) -> None:
    """Ends the server of a name, if there is one, and with it all of its children."""
    place = _places.pop(server_name, None)
    if place is not None:
        place.close()


def get_ready(function: str, ahead: Sequence[str] = (), server_name: str = "") -> None:
    """Has the server import what children that run `function` need, and call `ahead`, as for `fork`, without waiting.

    Of no effect where children are interpreters of their own. A child asked for meanwhile waits for it.
    """
    module, environment = function.partition(":")[0], child_environment()
    if not _can_fork(module, environment):
        return
    place = _place_of(server_name)
    with place.lock, contextlib.suppress(OSError):  # whoever asks for a child sees to it
        server = place.ready(environment)
        if server is not None and (module, *ahead) not in place.refused:
            server.get_ready({"function": function, "ahead": list(ahead)})


def _can_fork(module: str, environment: Mapping[str, str]) -> bool:
    """Whether a child with this environment that runs a function of the module may be a fork."""
    return sys.platform == "linux" and module.startswith(_OURS) and not any(map(environment.get, _MEASURED))


def settings_text() -> str:
    """What a server of this process would read once at its start, for comparison with another process's."""
    return repr((sorted(_read_at_start(child_environment()).items()), _limits()))


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a process takes from its environment once and for all, when it starts."""
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _limits() -> tuple[object, ...]:
    """What a process takes from its parent once and for all, when it starts."""
    with open("/proc/self/status", encoding="utf-8") as file:  # noqa: PTH123  asking the kernel for it would change it
        mask = next((line for line in file if line.startswith("Umask")), "")
    return mask, os.geteuid(), os.nice(0), os.sched_getaffinity(0), [resource.getrlimit(number) for number in _LIMITS]


def _is_mark(name: str) -> bool:
    return name.startswith("OPSCOPE_CHILD_")


def _is_readable(connection: socket.socket, seconds: float | None) -> bool:
    """Whether the connection can be read from, or has ended, within some seconds."""
    poll = select.poll()  # `select.select` takes no descriptor above 1023
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))
