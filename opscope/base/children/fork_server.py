"""A process that forks children: `python -P -m opscope.base.children.fork_server FD PARENT IDLE`, started by `forked`.

It ends with process PARENT, whose child it need not be.

A fork costs milliseconds where a new interpreter that imports the same modules costs some tenths of a second. The
server imports what its children run, and runs of it only what is to be done once for all of them; it has one thread,
as only a process with one thread can be forked safely; where the function that it called ahead returns a number, so
many threads are known to be harmless. Each request is one packet: JSON, and the four descriptors of
`frames.Request`. The answers go to the request's own socket: the number of the child, and once it has ended
its wait status. One without descriptors asks for no child, and gets no answer: the server imports what the next ones
will need. The child stays a zombie, so that its number is nobody else's, until that socket is closed. After IDLE
seconds without a child the server ends, unless that is 0.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from typing import Any, NamedTuple

from opscope.base import gc_pause, jax_plugins, reading
from opscope.base.children import inside, process_tree
from opscope.base.children.frames import (
    ASK_STRAYS,
    LARGEST_REQUEST,
    NO_FORK,
    NO_STRAYS,
    OUTDATED,
    Request,
)
from opscope.base.children.parent_death import become_reaper

_ROUNDS = 100


class _Living(NamedTuple):
    """A child that has not been asked for its end, or whose end nobody has taken note of."""

    pid: int
    handle: int
    """Its pidfd."""
    answers: socket.socket


class Server:
    """The server's loop: `serve` returns once the owner has ended, or asks for no more children."""

    def __init__(self, asking: socket.socket, owner: int, idle: float = 0.0) -> None:
        """`asking` is where requests come from. Raises ProcessLookupError if there is no owner any more."""
        self._idle = idle
        self._retired = False
        self._used = time.monotonic()
        """When the last child was forked or forgotten."""
        self._threads = 1
        """Threads that the server may have when it forks."""
        self._own: frozenset[int] = frozenset()
        """Children that a function called ahead has started."""
        self._living: dict[int, _Living] = {}
        self._called: set[tuple[str, ...]] = set()
        self._goes_on = True
        self._selector = selectors.DefaultSelector()
        self._selector.register(asking, selectors.EVENT_READ, lambda: self._take_request(asking))
        self._owner = os.pidfd_open(owner)  # in case a fork of the owner keeps the connection open
        self._selector.register(self._owner, selectors.EVENT_READ, self._end)

    def serve(self) -> None:
        """Takes requests and reports ends until there is nobody to serve."""
        while self._goes_on and not self._has_been_idle():
            for key, _ in self._selector.select(self._idle or None):
                key.data()
                self._used = time.monotonic()

    def _has_been_idle(self) -> bool:
        """Whether it has had no child for so long that it is to end."""
        if self._living:
            return False
        return self._retired or (bool(self._idle) and time.monotonic() - self._used >= self._idle)

    def _end(self) -> None:
        self._goes_on = False

    def _requests_end(self, requests: socket.socket) -> None:
        """The process that asked for children has closed its end."""
        self._selector.unregister(requests)
        requests.close()
        self._goes_on = self._retired

    def _take_request(self, requests: socket.socket) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(requests, LARGEST_REQUEST, len(Request._fields))
        except ConnectionError:
            data, descriptors = b"", []
        if not data:
            self._requests_end(requests)
            return
        task = json.loads(data)
        _load(task["function"])
        self._call_once(tuple(task["ahead"]))
        if not descriptors:
            return
        request = Request(*descriptors)
        answers = socket.socket(fileno=request.answers)
        pid = self._answer(request, task)
        for descriptor in (request.connection, request.output, request.folder):
            os.close(descriptor)
        if pid in (NO_FORK, OUTDATED):
            _tell(answers, pid)
            answers.close()
            return
        child = _Living(pid, os.pidfd_open(pid), answers)
        self._living[pid] = child
        self._selector.register(child.handle, selectors.EVENT_READ, lambda: self._report_end(child))
        self._selector.register(answers, selectors.EVENT_READ, lambda: self._take_word(child))
        _tell(answers, pid)

    def _answer(self, request: Request, task: dict[str, Any]) -> int:
        """The number of a new child, or why there is none."""
        if reading.is_outdated():
            self._retired = True  # who comes from now on starts another server
            return OUTDATED
        return NO_FORK if process_tree.threads_of(os.getpid()) > self._threads else self._fork(request, task)

    def _call_once(self, ahead: tuple[str, ...]) -> None:
        """Calls the function that is to be called ahead, unless it has been. A child does by itself what fails here."""
        if not ahead or ahead in self._called:
            return
        self._called.add(ahead)
        with contextlib.suppress(Exception, SystemExit), gc_pause.paused():
            module, _, name = ahead[0].partition(":")
            before = set(process_tree.children_of(os.getpid()))
            threads = getattr(importlib.import_module(module), name)(*ahead[1:])
            if type(threads) is int:
                self._threads = max(self._threads, threads)
            self._own |= set(process_tree.children_of(os.getpid())) - before

    def _fork(self, request: Request, task: dict[str, Any]) -> int:
        """Forks a child and returns its number. Raises OSError, which ends the server, if the system has none left."""
        gc.freeze()  # so that no collection in a child copies the memory that it shares
        server = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            _become_child(request, task, server)
        except BaseException as error:  # noqa: BLE001  the fork must not go on as a server
            _leave(error)
        finally:
            os._exit(1)

    def _report_end(self, child: _Living) -> None:
        """Tells how a child ended; WNOWAIT leaves it a zombie."""
        if self._living.get(child.pid) is not child:
            return  # forgotten since the selector saw its end
        self._selector.unregister(child.handle)
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        if ended is None:
            raise RuntimeError(f"process {child.pid}: expected that it has ended, as its handle says")
        exited = ended.si_code == os.CLD_EXITED
        _tell(child.answers, ended.si_status if exited else -ended.si_status)

    def _take_word(self, child: _Living) -> None:
        """Forgets a child whose parent has closed its end, or clears away what ended children have left."""
        with contextlib.suppress(OSError):
            if child.answers.recv(len(ASK_STRAYS)) == ASK_STRAYS:
                self._kill_strays()
                child.answers.send(NO_STRAYS)
                return
        self._selector.unregister(child.answers)
        child.answers.close()
        with contextlib.suppress(KeyError):  # its end has been reported
            self._selector.unregister(child.handle)
            process_tree.kill(child.pid)
        os.close(child.handle)
        os.waitpid(child.pid, 0)
        del self._living[child.pid]

    def _kill_strays(self) -> None:
        """Kills what ended children have left: it became this process's. Living children keep what is theirs."""
        for _ in range(_ROUNDS):
            strays = set(process_tree.children_of(os.getpid())) - set(self._living) - self._own
            if not strays:
                return
            for pid in strays:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)


def _load(function: str) -> None:
    """Imports the module of a function. If that fails, the child will say so, where its log is."""
    with contextlib.suppress(Exception, SystemExit), gc_pause.paused():
        importlib.import_module(function.partition(":")[0])


def _tell(answers: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the parent has closed its end
        answers.send(str(number).encode())


def _become_child(request: Request, task: dict[str, Any], server: int) -> None:
    """Turns this fork into what a new interpreter would be, and runs the function. Does not return."""
    os.setsid()
    os.fchdir(request.folder)
    connection = _keep_only(request)
    os.environ.clear()
    os.environ.update(task["environment"])
    sys.argv = [inside.__file__ or "", str(connection), str(server), task["function"]]
    inside.run(connection, server, task["function"])


def _leave(error: BaseException) -> None:
    """Ends this fork as the interpreter ends with an exception that nobody has caught."""
    code = 1
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        code = error.code or 0
    elif isinstance(error, SystemExit):
        print(error.code, file=sys.stderr)
    else:
        traceback.print_exception(error)
    sys.stdout.flush()
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code)


def _keep_only(request: Request) -> int:
    """Closes every descriptor but standard streams and the connection, and returns that one's new number."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, stream in ((nothing, 0), (request.output, 1), (request.output, 2)):
        os.dup2(descriptor, stream)
    connection = os.dup2(request.connection, 3, inheritable=False)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    return connection


def main(words: list[str]) -> None:
    """Entry point. Does not return."""
    descriptor, parent, idle = int(words[0]), int(words[1]), float(words[2])
    become_reaper()
    inside.count_as_child()  # no crash of it is its parent's
    jax_plugins.keep_out()
    reading.begin()  # forks inherit it
    with contextlib.suppress(KeyboardInterrupt, ProcessLookupError):  # or there is no owner any more
        Server(socket.socket(fileno=descriptor), parent, idle).serve()
    os._exit(0)  # its children die with it


if __name__ == "__main__":
    main(sys.argv[1:])
