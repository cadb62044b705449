"""Folders for what a backend's library writes: one for the load of a run, one for each lane, none left behind.

All lie in one folder below TMPDIR, which the process that starts a run makes when it is first needed and removes when
it ends. One that was killed has left it: the next to make one removes it, as nobody holds it any more.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from opscope.base.children import forked
from opscope.base.digest import words_digest
from opscope.base.temporary_folder import remove, remove_abandoned
from opscope.harness.backends import registry
from opscope.harness.cache import claims
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import backend_label

PREFIX = "opscope-scratch-"
_LOG = ".log"
_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30
"""Bytes that must be free there."""
_ATTEMPTS = 3
"""How often a folder is made that another process takes."""


TEMPORARY, WORKING = "tmp", "work"
"""Folders in that of a lane: its TMPDIR, and where it works."""


class Place(NamedTuple):
    """The folder of a run."""

    folder: str
    owner: int
    """The process that removes it."""


class Scratch:
    """The folder of this process, if it has made one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._process = 0
        self._claim = claims.Claims()

    def folder(self) -> Path:
        """The folder, made at the first call. Raises InputError if TMPDIR is no place for it."""
        with self._lock:
            if self._folder is None or self._process != os.getpid() or not self._folder.is_dir():
                place = _place()
                for swept in {place, _MEMORY}:  # a killed run may have had another TMPDIR
                    remove_abandoned(swept, PREFIX)
                self._process, self._claim = os.getpid(), claims.Claims()
                try:
                    self._folder = self._claimed(place)
                except OSError as error:
                    raise _refused(f"{place}: {error.strerror or error}") from error
            return self._folder

    def _claimed(self, place: Path) -> Path:
        """A new folder that is claimed. Raises OSError."""
        for _ in range(_ATTEMPTS):
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
            if self._claim.hold_alone(folder) and folder.is_dir():  # no other run has removed it before it was claimed
                return folder
        raise OSError("each new folder is taken by another process")

    def close(self) -> None:
        """Ends the servers and removes the folder; it may be made again."""
        with self._lock:
            folder, self._folder = self._folder, None
        if folder is None or self._process != os.getpid():  # a fork leaves it alone
            return
        for log in folder.glob(f"*{_LOG}"):
            forked.end(str(log).removesuffix(_LOG))
        remove(folder)
        self._claim.close()


_OF_PROCESS = Scratch()
atexit.register(_OF_PROCESS.close)


def of_process() -> Place:
    """The folder of this process. Raises InputError if TMPDIR is no place for it."""
    return Place(str(_OF_PROCESS.folder()), os.getpid())


def of_run(backends: Iterable[str]) -> Place | None:
    """The folder of this process if one of some backends needs it. Raises InputError if TMPDIR is no place for it."""
    return of_process() if any(needed(backend) or loads_once(backend) for backend in backends) else None


def close() -> None:
    """Ends what this process has loaded for its lanes, and removes the folder."""
    _OF_PROCESS.close()


class _Runs:
    """The runs of this process that are under way."""

    def __init__(self) -> None:
        self.lock, self.count = threading.Lock(), 0


_UNDER_WAY = _Runs()


@contextlib.contextmanager
def for_a_run() -> Iterator[None]:
    """Ends what was loaded for lanes once no run is under way: the next may be of an edited compiler."""
    with _UNDER_WAY.lock:
        _UNDER_WAY.count += 1
    try:
        yield
    finally:
        with _UNDER_WAY.lock:
            _UNDER_WAY.count -= 1
            last = _UNDER_WAY.count == 0
        if last:
            close()


def needed(backend: str) -> bool:
    """Whether a backend says in its source that its library may write files."""
    declared = registry.declarations_of(backend)
    return bool(declared.methods & {"load", "open"} or declared.constants.get("scratch_bytes"))


def loads_once(backend: str) -> bool:
    """Whether lanes of a backend are forks of a process of the run's own that has loaded it."""
    if not registry.declares(backend, "forkable"):
        return False
    return backend not in registry.own_names() or "load" in registry.declarations_of(backend).methods


def server_of(backend: str, place: Place) -> str:
    """The name of the process that the lanes of a backend are forked from, which stays until the folder is removed."""
    label = re.sub(r"[^\w.-]", "_", backend_label(backend))
    name = str(Path(place.folder, f"{label[:40]}-{words_digest(registry.absolute(backend), digits=8)}"))
    forked.keep(name, log_of(name))
    return name


def log_of(server: str) -> Path:
    """What such a process writes while it loads a library."""
    return Path(f"{server}{_LOG}")


def check_room(backend: str) -> None:
    """Raises InputError if the library of a backend does not fit into TMPDIR."""
    needs = registry.declarations_of(backend).constants.get("scratch_bytes")
    if not isinstance(needs, int) or needs <= 0:
        return
    place = _place()
    free = shutil.disk_usage(place).free
    if free < needs:
        raise _refused(f"{free >> 20} MiB free at {place}", f"{_mib(needs)} free for what {backend} unpacks")


def new_lane(place: Place) -> Path:
    """A new folder of a lane. Raises InputError if the disk refuses it."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="lane-", dir=place.folder))
        for name in (TEMPORARY, WORKING):
            (folder / name).mkdir()
        return folder
    except OSError as error:
        raise _refused(f"{place.folder}: {error.strerror}") from error


def _place() -> Path:
    """TMPDIR where it is set, else memory where there is room. Raises InputError for none that can be written.

    A library that unpacks thousands of small files takes 1.5 s in memory, and 15 s on a disk that others use.
    """
    if not os.environ.get("TMPDIR") and os.access(_MEMORY, os.W_OK | os.X_OK) and _free(_MEMORY) >= _ROOM:
        return _MEMORY
    place = Path(os.environ.get("TMPDIR") or tempfile.gettempdir())
    if not place.is_dir():
        raise _refused(f"{place}, which is no folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise _refused(f"{place}, which is not writable")
    return place.absolute()


def _free(folder: Path) -> int:
    """Bytes that are free in a folder; 0 if it cannot be asked."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _refused(got: str, expected: str = "a writable folder") -> InputError:
    return InputError("TMPDIR", expected, got, "export TMPDIR=<a folder with room>")


def _mib(size: int) -> str:
    return f"{-(-size >> 20)} MiB"
