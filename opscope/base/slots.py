"""At most so many busy processes: each asks the process that starts a run for one of its slots before it works.

Slots are granted in the order in which they are asked for. One that asks from another process holds its slot by a
connection: whoever is killed leaves none taken, and forks inherit none.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from opscope.base.temporary_folder import TemporaryFolder

TURN = 0.5
"""Seconds after which a slot is handed on where another waits. Shorter ones would cost more waiting."""
LOOK = 0.05
"""Seconds between two looks whether who waits shall go on waiting."""
WAITING = 256
"""So many processes may connect at once."""
TAKE, GIVE, HAND_ON, YES, NO = b"t", b"g", b"h", b"y", b"n"
"""What a process asks, and the answers."""

SlotAddress = tuple[str, int]
"""Where another process asks for slots, and how many there are."""


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


class _Asker:
    """Who asks for a slot: a thread of this process, or a connection."""

    def __init__(self, connection: socket.socket | None = None) -> None:
        self.connection, self.granted = connection, threading.Event()

    def grant(self) -> None:
        self.granted.set()
        if self.connection is not None:
            with contextlib.suppress(OSError):  # it has ended, which its connection says next
                self.connection.send(YES)


class SlotServer:
    """The slots of a run, in the process that starts it; a context manager."""

    def __init__(self, count: int) -> None:
        """Raises OSError where no folder can be made for the address."""
        self.count = count
        self._lock = threading.Lock()
        self._held: set[_Asker] = set()
        self._waiting: deque[_Asker] = deque()
        self._folder = TemporaryFolder("slots")
        self._door = socket.socket(socket.AF_UNIX)
        with short_address(self._folder.name, "door") as address:
            self._door.bind(address)
        self._door.listen(WAITING)
        self.address: SlotAddress = (str(Path(self._folder.name, "door")), count)
        self._end, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="opscope slots", daemon=True)
        self._thread.start()

    def __enter__(self) -> SlotServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Grants no more to other processes; may be called twice."""
        if self._wake >= 0:
            os.write(self._wake, GIVE)  # to close it would not do: a fork may have it open
            self._thread.join()
            os.close(self._wake)
            self._wake = -1

    def ask(self, asker: _Asker) -> None:
        """Puts somebody at the end of those who wait."""
        with self._lock:
            asker.granted.clear()
            self._waiting.append(asker)
            self._grant()

    def release(self, asker: _Asker) -> None:
        """Takes back what somebody has or waits for."""
        with self._lock:
            self._held.discard(asker)
            if asker in self._waiting:
                self._waiting.remove(asker)
            self._grant()

    def hand_on(self, asker: _Asker) -> bool:
        """Takes a slot back if somebody waits for one."""
        with self._lock:
            if not self._waiting or asker not in self._held:
                return False
            self._held.discard(asker)
            self._grant()
            return True

    def _grant(self) -> None:
        while self._waiting and len(self._held) < self.count:
            asker = self._waiting.popleft()
            self._held.add(asker)
            asker.grant()

    def _serve(self) -> None:
        """Answers other processes, until the end. A thread's work."""
        with selectors.DefaultSelector() as selector, self._door:
            selector.register(self._door, selectors.EVENT_READ)
            selector.register(self._end, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd == self._end:
                        askers = [each.data for each in selector.get_map().values()]
                        self._hang_up([each.connection for each in askers if each is not None])
                        return
                    if key.fileobj is self._door:
                        connection, _ = self._door.accept()
                        selector.register(connection, selectors.EVENT_READ, _Asker(connection))
                    elif not self._answered(key.data):
                        selector.unregister(key.fileobj)
                        key.data.connection.close()

    def _hang_up(self, connections: Sequence[socket.socket]) -> None:
        """Ends all connections, also those that nobody has accepted, whatever a fork of this process has open."""
        self._folder.cleanup()  # nobody finds the door any more
        os.close(self._end)
        self._door.setblocking(False)
        waiting = [*connections]
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting.append(self._door.accept()[0])
        for connection in waiting:
            with contextlib.suppress(OSError):  # the other side has ended
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _answered(self, asker: _Asker) -> bool:
        """Does what a process asks; False once it has ended."""
        assert asker.connection is not None
        try:
            word = asker.connection.recv(1)
        except OSError:
            word = b""
        if word == TAKE:
            self.ask(asker)
        elif word == HAND_ON:
            with contextlib.suppress(OSError):
                asker.connection.send(YES if self.hand_on(asker) else NO)
        else:
            self.release(asker)
        return bool(word)


class Slots:
    """One slot at a time, as one thread of the process with the server has it, or another process. Not for several
    threads."""

    def __init__(self, server: SlotServer | SlotAddress) -> None:
        self._server = server if isinstance(server, SlotServer) else None
        self._address = server.address if isinstance(server, SlotServer) else server
        self.count = self._address[1]
        self._asker = _Asker()
        self._connection: socket.socket | None = None
        self._process = os.getpid()
        self._holds, self._since = False, 0.0

    @property
    def holds(self) -> bool:
        """Whether there is a slot."""
        return self._holds and self._process == os.getpid()

    def take(self, check: Callable[[], None] = lambda: None) -> None:
        """Waits for a slot, where there is none; `check` is called meanwhile and may raise. Where nobody grants any
        more, all are free."""
        if self.holds:
            return
        self._process = os.getpid()
        try:
            if self._server is not None:
                self._server.ask(self._asker)
                while not self._asker.granted.wait(LOOK):
                    check()
            elif self._said(TAKE):
                while not self._is_answered(LOOK):
                    check()
                self._heard()
        except BaseException:
            self._back()
            if self._connection is not None:  # the answer may be under way
                self._connection.close()
                self._connection = None
            raise
        self._holds, self._since = True, time.monotonic()

    def give(self) -> None:
        """Hands the slot back, if there is one."""
        if self.holds:
            self._back()
            self._holds = False

    def hand_on(self) -> bool:
        """Hands the slot back if its turn is over and another waits. The caller takes one before it goes on."""
        if not self.holds or time.monotonic() - self._since < TURN:
            return False
        if self._server is not None:
            handed = self._server.hand_on(self._asker)
        else:
            handed = self._said(HAND_ON) and self._heard() == YES
        self._holds = not handed
        return handed

    def __del__(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _back(self) -> None:
        if self._server is not None:
            self._server.release(self._asker)
        else:
            self._said(GIVE)

    def _said(self, word: bytes) -> bool:
        """Whether the server was sent a word."""
        try:
            if self._connection is not None and self._asked_by != os.getpid():
                self._connection.detach()  # its number may be another file's in this fork
                self._connection = None
            if self._connection is None:
                self._connection, self._asked_by = socket.socket(socket.AF_UNIX), os.getpid()
                folder, name = os.path.split(self._address[0])
                with short_address(folder, name) as address:
                    self._connection.connect(address)
            self._connection.send(word)
        except OSError:
            return False
        return True

    _asked_by = 0
    """The process of the connection."""

    def _is_answered(self, seconds: float) -> bool:
        assert self._connection is not None
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _heard(self) -> bytes:
        """The server's answer; empty once it has ended."""
        assert self._connection is not None
        try:
            return self._connection.recv(1)
        except OSError:
            return b""


def take_one(address: SlotAddress | None) -> None:
    """Waits for a slot, which this process then has until it ends; None is none to wait for."""
    if address is not None:
        slots_of(*address).take()


@cache
def slots_of(path: str, count: int) -> Slots:
    """This process's slots of an address: as many as ask for one here have it together."""
    return Slots((path, count))
