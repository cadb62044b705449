"""A Python function in a child process that exchanges messages with its parent. How it ends is an `Ending`.

    with Child("opscope.harness.lanes.worker:serve", memory=4 << 30) as child:
        child.send({"op": 1})
        answer = child.receive(Deadline(60))

The function gets its own end of the connection (`inside.Parent`). The child computes on one thread, and its output goes
to a capped log. The parent watches resident memory and threads itself, because resource limits do not apply to root.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict

from opscope.base.children import frames, process_tree
from opscope.base.children.ending import Cause, ChildEnded, Deadline, Ending, of_return_code
from opscope.base.children.forked import fork
from opscope.base.children.frames import RAISED, Message
from opscope.base.children.process import Local, LocalFork, Process, Program, child_environment
from opscope.base.children.process_tree import is_stopped, usage

if TYPE_CHECKING:
    from typing import Unpack  # of Python 3.11: a user's own interpreter may be older

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


FILE_LIMIT = 4 * 1024 * 1024
TAIL_LIMIT = 32 * 1024


class CappedLog:
    """Receives bytes. At most FILE_LIMIT of them go to the file, which is created with the first."""

    def __init__(self, path: Path | None = None) -> None:
        """Writes to the file at `path`. With None, only the last bytes are kept, in memory."""
        self._path, self._file, self._written = path, None, 0
        self._tail = bytearray()

    def write(self, data: bytes) -> None:
        """Adds output. If the disk refuses it, the file is incomplete but the run goes on."""
        self._tail += data
        del self._tail[:-TAIL_LIMIT]
        room = FILE_LIMIT - self._written
        if self._path is None or room <= 0:
            return
        try:
            file = self._open(self._path)
            file.write(data[:room])
            self._written += len(data)
            if len(data) >= room:
                file.write(b"\n[output capped here]\n")
            file.flush()
        except OSError:
            self._path = None

    def mark(self) -> None:
        """Clears the tail, because the output that follows belongs to another task."""
        self._tail.clear()

    def tail(self, lines: int = 60) -> str:
        """The last lines since the mark."""
        return "\n".join(self._tail.decode(errors="replace").splitlines()[-lines:]) + "\n"

    def last_line(self) -> str:
        """The last line since the mark that is not blank. If Python itself crashed, the line above its stack."""
        lines = [line.strip() for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith("Fatal Python error")]
        return (fatal or lines or [""])[-1]

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path) -> BinaryIO:
        if self._file is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
        return self._file


TO_END = 1.0
"""Seconds that a child which has closed its socket has to end."""
POLL_SECONDS = 0.05
"""How often memory and threads are checked."""


_INSIDE = "opscope.base.children.inside"
_IN_ANY_PYTHON = f"""
import runpy, sys
sys.path[:] = filter(None, sys.path)
runpy.run_module({_INSIDE!r}, None, "__main__")
"""
"""What `-P -m` does, which Python has since 3.11."""


class ChildOptions(TypedDict, total=False):
    """How a child is started."""

    environment: Mapping[str, str] | None
    """Added to `child_environment`."""
    log: CappedLog | None
    """What takes its output."""
    ahead: Sequence[str]
    """A function, written `package.module:name`, and its arguments: where children are forks, the process that they are
    forks of calls it once. It must start no thread, and a child must do by itself what it did not get."""
    server: str
    """The name of a process that has forks for this name alone, so that what is loaded for them is in no others; it
    ends when it has had none for a while, unless it is kept (`forked.keep`)."""
    python: str
    """Another interpreter, which finds this package by `environment`."""


def _start(function: str, connection: int, output: int, token: str, options: ChildOptions) -> Program:
    """Starts the process of a child that runs a function of a name: as a fork of one that has its modules, or else by
    a command."""
    mark, python = f"OPSCOPE_CHILD_{token}", options.get("python", "")
    environment = {**child_environment(options.get("environment")), mark: "1"}
    if not python:
        ahead, server = options.get("ahead", ()), options.get("server", "")
        program = fork(function, (connection, output), environment, mark, ahead, server)
        if program is not None:
            return program
    command = [sys.executable, "-P", "-m", _INSIDE] if not python else [python, "-c", _IN_ANY_PYTHON]
    return Process(
        [*command, str(connection), str(os.getpid()), function],
        output,
        environment=environment,
        descriptors=(connection,),
        mark=mark,
    )


class Child:
    """The process, the socket to it, its output and the handle that is readable once it ends; a context manager."""

    def __init__(
        self,
        function: str | Local,
        *,
        memory: int | None = None,
        threads: int | None = None,
        **options: Unpack[ChildOptions],
    ) -> None:
        """Starts `function`, written `package.module:name`, without waiting for it.

        `memory` is how many bytes the child and its descendants may hold in RAM, `threads` how many threads they may
        have. A `Local` function runs in a fork of this process, with this process's environment; `memory` is then what
        it may hold beyond what it shares with this process. Raises OSError if no process can be started.
        """
        self.log = options.get("log") or CappedLog(None)
        self.memory, self.threads = memory, threads
        ours, theirs = socket.socketpair()
        name_senders(ours)
        try:
            read, write = os.pipe()
        except OSError:
            ours.close()
            theirs.close()
            raise
        token = frames.new_token()
        self._cgroup = process_tree.make_cgroup() if isinstance(function, str) else None
        try:
            if isinstance(function, str):
                self._process = _start(function, theirs.fileno(), write, token.hex(), options)
            else:
                self._process = LocalFork(function, theirs.fileno(), write)
        except OSError:
            if self._cgroup is not None:
                self._cgroup.kill()
            ours.close()
            os.close(read)
            raise
        finally:
            theirs.close()
            os.close(write)
        self.pid = self._process.pid
        self._handle = self._process.open_handle()
        self._socket, self._output = ours, read
        ours.setblocking(False)
        os.set_blocking(read, False)
        self._token, self._decoder = token, frames.Decoder(token)
        folder = "" if self._cgroup is None else self._cgroup.folder
        self._outgoing = bytearray(f"{token.hex()} {folder}\n".encode())
        self._messages: deque[Message] = deque()
        self._checked = 0.0
        self.before_reading: Callable[[], None] = lambda: None
        """Called before bytes of the child are read."""
        self._garbage = ""
        """The error for received bytes that are no frame; the frames before them are still messages."""
        self._selector = selectors.DefaultSelector()
        for source in (ours, read, self._handle):
            if source is not None:
                self._selector.register(source, selectors.EVENT_READ)
        self._open = {ours.fileno(), read}

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def send(self, message: Message) -> None:
        """Queues one message; `wait` and `receive` write it as the child takes it."""
        self._outgoing += frames.encode(message, self._token)
        self._flush()

    def receive(self, deadline: Deadline, watch: Callable[[], None] | None = None) -> Message:
        """The child's next message.

        `watch` is called about twenty times a second and may raise to end the wait. Raises ChildEnded if the
        child's function raised, the child ended, gave no answer in time, wrote something that is no message, or took
        more than it may.
        """
        while True:
            alive = bool(self._messages) or self.wait(min(POLL_SECONDS, deadline.left()))
            if self._messages:
                message = self._messages.popleft()
                if RAISED in message:
                    text, traceback = message[RAISED]
                    raise ChildEnded(Ending(Cause.RAISED, text, 1, traceback))
                return message
            if self._garbage:
                raise ChildEnded(Ending(Cause.PROTOCOL, self._garbage))
            if not alive:
                raise ChildEnded(self._how_it_ended())
            self.check(deadline, watch)

    def check(self, deadline: Deadline, watch: Callable[[], None] | None = None) -> None:
        """Raises ChildEnded if the child is late or holds more than it may, or what `watch` raises.

        `receive` calls it while it waits. A caller that takes many messages before the answer calls it between them.
        """
        if not deadline.left():
            still = " (stopped)" if is_stopped(self.pid) else ""
            raise ChildEnded(Ending(Cause.TIMEOUT, f"no answer within {deadline.seconds:g} s{still}"))
        if time.monotonic() - self._checked >= POLL_SECONDS / 2:
            self._checked = time.monotonic()
            self._check_usage()
            if watch is not None:
                watch()

    def wait(self, seconds: float) -> bool:
        """Waits for messages or output and reads them. Returns False once the child has ended or closed its socket."""
        ended = self._handle is None and self._process.has_ended()
        for key, _ in self._selector.select(seconds):
            if key.fd == self._handle:
                ended = True
            elif key.fd == self._output:
                self._take_output()
            else:
                self._flush()
                self._take_frames()
        if ended:
            # Socket and output may hold more: what the child wrote before it ended still counts.
            self._take_output()
            self._take_frames()
        return not ended and self._socket.fileno() in self._open

    def has_more(self) -> bool:
        """Whether the child has sent something that `receive` has not returned."""
        self.wait(0)
        return bool(self._messages or self._garbage)

    def close(self) -> None:
        """The same as `kill`."""
        self.kill()

    def usage(self) -> tuple[int, int]:
        """(resident bytes, threads) of the child and all its descendants."""
        return usage(self.pid)

    def descriptors(self) -> list[int]:
        """What is readable when the child has sent or printed something, or has ended."""
        return [key.fd for key in self._selector.get_map().values()]

    def kill(self) -> None:
        """Ends the child and all its descendants, and closes everything."""
        self._process.kill()
        if self._cgroup is not None:
            self._cgroup.kill()
        self._take_output()
        self._selector.close()
        self._socket.close()
        os.close(self._output)
        if self._handle is not None:
            os.close(self._handle)

    def _check_usage(self) -> None:
        """Raises ChildEnded if the child holds more than it may."""
        if self.memory is None and self.threads is None:
            return
        resident, threads = self.usage()
        resident -= self._process.shares
        if self.memory is not None and resident > self.memory:
            text = f"{resident >> 20} MiB resident, {self.memory >> 20} MiB allowed"
            raise ChildEnded(Ending(Cause.MEMORY, text))
        if self.threads is not None and threads > self.threads:
            raise ChildEnded(Ending(Cause.THREADS, f"{threads} threads, {self.threads} allowed"))

    def _how_it_ended(self) -> Ending:
        """The ending of a child that ended or closed its socket."""
        code = self._process.wait(TO_END)
        return Ending(Cause.PROTOCOL, "closed its socket and went on") if code is None else of_return_code(code)

    def _flush(self) -> None:
        try:
            while self._outgoing:
                del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            self._watch(selectors.EVENT_READ | selectors.EVENT_WRITE)
            return
        except OSError:
            self._outgoing.clear()  # it closed its socket, which `wait` will report
        self._watch(selectors.EVENT_READ)

    def _watch(self, events: int) -> None:
        if self._socket.fileno() in self._open:
            self._selector.modify(self._socket, events)

    def _take_frames(self) -> None:
        self.before_reading()
        while (data := self._read(self._socket.fileno(), lambda: receive_from(self._socket, self.pid))) is not None:
            try:
                for message in self._decoder.feed(data):
                    self._messages.append(message)
            except frames.ProtocolError as error:
                self._garbage = str(error)
                return

    def _take_output(self) -> None:
        while (data := self._read(self._output, lambda: os.read(self._output, 1 << 16))) is not None:
            self.log.write(data)

    def _read(self, descriptor: int, read: Callable[[], bytes]) -> bytes | None:
        """Returns bytes, or None if there are none now or there will be no more."""
        if descriptor not in self._open:
            return None
        try:
            data = read()
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if data:
            return data
        self._open.discard(descriptor)
        self._selector.unregister(descriptor)
        return None
