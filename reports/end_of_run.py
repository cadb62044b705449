"""What the end of an op-by-op run delivers: report.html and the rows in the database, in this process or in a fork.

The fork is made before the run begins, imports SQLAlchemy and all else that it needs while the run goes on, and then
waits for the run's folder. So the pytest process loads none of it: of a run in which nothing changed, that was more
than a third. It is only made while this process has one thread, and it is ended with it. Whatever happens to the fork,
the caller can do the same work itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import damage
from opscope.base.children.parent_death import die_with_parent
from opscope.base.children.process import die_quietly

if TYPE_CHECKING:
    from opscope.harness.record.records import OpTest
    from opscope.harness.record.store import StoredRun

    Records = tuple[StoredRun, Sequence[OpTest]]

AHEAD = (
    "opscope.reports.compare.owned",
    "opscope.reports.database.owners",
    "opscope.reports.pages.html",
    "opscope.reports.pages.compiled_templates",
    "opscope.reports.publish.spool",
)
"""The modules that a report and a publish import, with all that these import."""

MOST_RECORDS = 5_000
"""Records that are read once more in a fork. More of them cost more time than its imports save."""

GRACE = 30.0
"""Seconds beyond the limits of both steps after which a fork that does not answer is ended."""


@dataclass(frozen=True)
class Targets:
    """Where a run is delivered to, and how long each step may take."""

    url: str | None
    """The database that was asked for; None is the one of the folder."""
    folder: Path
    """The folder in which pytest was called."""
    seconds: float


@dataclass
class Delivered:
    """What became of a report and a publish."""

    places: dict[str, str]
    """`report` and `database` -> where they are, as far as they are."""
    problems: list[str]
    """One line for each of the two that failed, and for other runs that wait or were refused; the run itself last."""
    lost: bool = False
    """Whether the run is neither in the database nor in the spool."""


def deliver(run_dir: Path, targets: Targets, records: Records | None, doing: Callable[[str], None]) -> Delivered:
    """Writes the report of a run and publishes it; `doing` gets the name of each step before it begins."""
    done = Delivered({}, [])
    for target, step in (("report", _report), ("database", _publish)):
        doing(target)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a project that makes warnings errors means those of its own tests
                step(run_dir, targets, records, done)
        except Exception as error:  # noqa: BLE001 - a report is never worth a run
            reason = " ".join(str(error).split()) or type(error).__name__
            hint = f"opscope publish {run_dir}" if target == "database" else f"whether {run_dir} can be written"
            line = reason if ": expected " in reason else f"{target}: expected to write it, got {reason}; try {hint}"
            done.problems.append(line)
            done.lost = done.lost or target == "database"
    return done


def _report(run_dir: Path, targets: Targets, records: Records | None, done: Delivered) -> None:
    from opscope.base.time_limit import time_limit
    from opscope.reports.compare.owned import Owned
    from opscope.reports.database.files import default_url
    from opscope.reports.database.owners import rules_here
    from opscope.reports.pages.html import write_report

    owned = Owned(rules_here(None, root=targets.folder))
    url = targets.url or default_url(targets.folder)
    with time_limit(targets.seconds):
        done.places["report"] = str(write_report(run_dir, url, records and records[0], owned))


def _publish(run_dir: Path, targets: Targets, records: Records | None, done: Delivered) -> None:
    from opscope.reports.database.database import parse_url, shown
    from opscope.reports.database.files import default_url
    from opscope.reports.publish import spool

    url = targets.url or default_url(targets.folder)
    delivery = spool.deliver(run_dir, url, targets.folder, "--publish", records, targets.seconds)
    done.problems += [each.line for each in delivery.earlier]
    done.problems += map(str, delivery.problems)
    done.lost = delivery.lost
    if delivery.problem is None:
        done.places["database"] = shown(parse_url(url))


def import_ahead() -> None:
    """Imports what a delivery needs. Whatever cannot be imported is said where it is imported again."""
    with contextlib.suppress(Exception):
        for name in AHEAD:
            importlib.import_module(name)


class WaitingFork:
    """A fork of this process that waits for a run and where it goes."""

    def __init__(self) -> None:
        self._connection, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _live_in_fork(theirs, parent)
        theirs.close()

    def deliver(self, run_dir: Path, targets: Targets, doing: Callable[[str], None]) -> Delivered | None:
        """Has the fork deliver a run and ends it; None if it ended without an answer."""
        order = (str(run_dir), targets.url, str(targets.folder), targets.seconds)
        try:
            self._connection.sendall(json.dumps(order).encode() + b"\n")
            for word, value in self._messages(2 * targets.seconds + GRACE):
                if word == "doing":
                    doing(value)
                elif word == "damage":
                    damage.say(value)
                else:
                    return Delivered(**value)
        except OSError:
            return None  # it has gone
        finally:
            self.close()
        return None

    def _messages(self, seconds: float) -> Iterator[tuple[str, Any]]:
        """What the fork says. Ends where it ends, or after `seconds`."""
        until, data = time.monotonic() + seconds, b""
        while (left := until - time.monotonic()) > 0 and select.select([self._connection], [], [], left)[0]:
            piece = self._connection.recv(1 << 16)
            if not piece:
                return
            *lines, data = (data + piece).split(b"\n")
            yield from (tuple(json.loads(line)) for line in lines)

    def close(self) -> None:
        """Ends the fork, whatever it is doing."""
        if self._pid:
            self._connection.close()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # somebody has asked for all children of this process
                os.waitpid(self._pid, 0)
            self._pid = 0


def waiting_fork() -> WaitingFork | None:
    """A fork that gets ready to deliver a run; None where this process cannot be forked safely."""
    threaded = threading.active_count() > 1 or "jax" in sys.modules  # whose threads Python does not count
    if sys.platform != "linux" or threaded:
        return None
    try:
        return WaitingFork()
    except OSError:  # no memory, or too many processes
        return None


def _live_in_fork(connection: socket.socket, parent: int) -> None:
    """Imports, waits for a run, delivers it; never returns."""
    try:
        die_with_parent(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process then
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        die_quietly()
        os.closerange(3, connection.fileno())
        os.closerange(connection.fileno() + 1, os.sysconf("SC_OPEN_MAX"))

        def say(word: str, value: Any) -> None:
            connection.sendall(json.dumps((word, value)).encode() + b"\n")

        damage.show_by(lambda line: say("damage", line))
        gc.disable()
        import_ahead()
        gc.freeze()  # nor is garbage looked for later: it delivers one run of not too many records, and ends
        with connection.makefile("rb") as lines:
            line = lines.readline()
        if line:
            run, url, called_in, seconds = json.loads(line)
            run_dir, targets = Path(run), Targets(url, Path(called_in), seconds)
            done = deliver(run_dir, targets, _records(run_dir), lambda target: say("doing", target))
            say("done", asdict(done))
    finally:
        os._exit(0)


def _records(run_dir: Path) -> Records | None:
    """The records of a run; None where they cannot be read, which whoever needs them says."""
    from opscope.harness.record import store
    from opscope.harness.record.errors import InputError

    try:
        return store.load_attempts(run_dir)
    except InputError:
        return None
