"""The process behind a lane: started in a session of its own, spoken to in frames, killed with its whole group."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from typing import Any

from opscope.harness.lanes import frames
from opscope.harness.lanes.lane_log import CappedLog
from opscope.harness.lanes.process_tree import descendants
from opscope.harness.record.stages import Status

_SINGLE_THREADED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NPROC": "1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "PYTHONUNBUFFERED": "1",
}
_XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false"


class LaneDownError(Exception):
    """The child is of no more use: why, as status and crash kind."""

    def __init__(self, status: Status, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class LaneProcess:
    """The process, its socket, its output pipe and the handle that says when it ended."""

    def __init__(self, environment: Mapping[str, str], log: CappedLog) -> None:
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "opscope.harness.lanes.worker", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=write, stderr=write, pass_fds=(theirs.fileno(),),
                env=child_environment(environment), start_new_session=True,
            )  # fmt: skip
        finally:
            theirs.close()
            os.close(write)
        self.pid = self._process.pid
        # Readable once the process has ended; elsewhere than on Linux every wait asks instead.
        self._handle = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        self._socket, self._output, self._log = ours, read, log
        ours.setblocking(False)
        os.set_blocking(read, False)
        self._decoder, self._outgoing = frames.Decoder(), bytearray()
        self._messages: deque[dict[str, Any]] = deque()
        self.garbage: str | None = None
        """What came that is no frame; frames before it are still messages."""
        self._selector = selectors.DefaultSelector()
        for source in (ours, read, self._handle):
            if source is not None:
                self._selector.register(source, selectors.EVENT_READ)
        self._open = {ours.fileno(), read}

    def send(self, message: dict[str, Any]) -> None:
        """Queues one frame; `wait` writes it as the child takes it."""
        self._outgoing += frames.encode(message)
        self._flush()

    def next_message(self) -> dict[str, Any] | None:
        """A frame that has arrived, oldest first."""
        return self._messages.popleft() if self._messages else None

    def wait(self, seconds: float) -> bool:
        """Waits for news and takes it in; False once the child has ended or closed its end of the socket."""
        ended = self._handle is None and self._process.poll() is not None
        for key, _ in self._selector.select(seconds):
            if key.fd == self._handle:
                ended = True
            elif key.fd == self._output:
                self._take_output()
            else:
                self._flush()
                self._take_frames()
        if ended:
            # Both may hold more: what was written before the end still counts.
            self._take_output()
            self._take_frames()
        return not ended and self._socket.fileno() in self._open

    def died(self) -> LaneDownError:
        """What to say of a child that ended or hung up."""
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return LaneDownError(Status.CRASHED, "protocol", "closed its socket and went on")
        if code < 0:
            name = _signal_name(-code)
            return LaneDownError(Status.CRASHED, f"signal {name}", f"killed by {name}")
        return LaneDownError(Status.CRASHED, f"exit {code}", f"left with exit code {code}")

    def kill(self) -> None:
        """Ends the child and its process group, and closes everything."""
        strays = descendants(self.pid)  # also those in sessions of their own
        with contextlib.suppress(ProcessLookupError):  # it and all its children have ended
            os.killpg(self.pid, signal.SIGKILL)
        for stray in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stray, signal.SIGKILL)
        self._process.wait()
        self._take_output()
        self._selector.close()
        self._socket.close()
        os.close(self._output)
        if self._handle is not None:
            os.close(self._handle)

    def _flush(self) -> None:
        try:
            while self._outgoing:
                del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            self._watch(selectors.EVENT_READ | selectors.EVENT_WRITE)
            return
        except OSError:
            self._outgoing.clear()  # it has hung up; `wait` tells
        self._watch(selectors.EVENT_READ)

    def _watch(self, events: int) -> None:
        if self._socket.fileno() in self._open:
            self._selector.modify(self._socket, events)

    def _take_frames(self) -> None:
        while (data := self._read(self._socket.fileno(), lambda: self._socket.recv(1 << 16))) is not None:
            try:
                for message in self._decoder.feed(data):
                    self._messages.append(message)
            except frames.ProtocolError as error:
                self.garbage = str(error)
                return

    def _take_output(self) -> None:
        while (data := self._read(self._output, lambda: os.read(self._output, 1 << 16))) is not None:
            self._log.write(data)

    def _read(self, descriptor: int, read: Any) -> bytes | None:
        """Bytes; None where there are none now or nothing will come any more."""
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


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment for a child that computes on one thread."""
    env = {**os.environ, **_SINGLE_THREADED}
    env["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_XLA_FLAGS}".strip()
    return {**env, **extra}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
