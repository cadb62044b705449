"""The table of what an op may change in its process: how each thing is read, and how it is put back.

Reading all of it takes some microseconds per row, because a worker does it after every op. What is not in the table,
with the reason, is at the top of `worker_hygiene.py`.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import faulthandler
import gc
import locale
import os
import re
import resource
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.children import forked, process_tree
from opscope.harness.lanes.float_environment import FloatEnvironment

SHOWN = 200
"""Longest description of a change, in characters."""
FILES = 64
"""So many more files may be open than before the first op."""
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 1, 2, 36, 37
"""From linux/prctl.h."""
_LIBC = ctypes.CDLL(None)
_STATUS = re.compile(rb"^(Uid|Gid|Groups|SigBlk|SigIgn|SigCgt|CapEff|NoNewPrivs|Seccomp):\t(.*)$", re.MULTILINE)
_OF_C_LIBRARY = 1 << 32 - 1 | 1 << 33 - 1
"""glibc's SIGCANCEL and SIGSETXID, as bits of the masks: it takes the second when the first thread starts."""
_SIGNALS = tuple(
    number
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGCHLD", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGHUP")
    if (number := getattr(signal, name, None)) is not None
)
"""Signals whose Python handlers are compared. The masks of /proc show whether any other has one."""
_LIMITS = {
    number: name for name in sorted(dir(resource)) if name.startswith("RLIMIT_") for number in [getattr(resource, name)]
}
SET_BY_JAX = frozenset({b"TF_CPP_MIN_LOG_LEVEL", b"TPU_SKIP_MDS_QUERY"})
"""Variables that JAX sets when it is loaded. The comparison loads it for the first op whose operands it evaluates, and
that op has changed nothing."""
COLLECTED_BY_JAX = "jax._src.lib"
"""The module of the function that JAX has called after each collection of garbage, from when it is loaded."""
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


@dataclass(frozen=True)
class Row:
    """One thing of a process."""

    what: str
    read: Callable[[], Any]
    """Returns a value that is equal as long as nothing has changed."""
    undo: Callable[[Any], object] | None = None
    """Puts back a value that `read` returned. None if that cannot be done for sure."""
    describe: Callable[[Any, Any], str] = lambda before, now: f"{before!r} -> {now!r}"
    early: bool = False
    """Whether it is put back before the result is compared, because it could disturb that."""

    def value(self) -> Any:
        """The value now, or the text of the error that reading it raises."""
        try:
            return self.read()
        except Exception as error:  # noqa: BLE001  an op may have put anything anywhere
            return repr(error)

    def described(self, before: Any, now: Any) -> str:
        """What changed, in at most `SHOWN` characters."""
        try:
            text = self.describe(before, now)
        except Exception:  # noqa: BLE001  a value may be of any type by now
            text = "another value"
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."

    def put_back(self, before: Any) -> bool:
        """Puts a value back; returns whether that succeeded."""
        if self.undo is None:
            return False
        with contextlib.suppress(Exception):
            self.undo(before)
        return bool(self.value() == before)


def rows(connection: int) -> list[Row]:
    """The rows of this process; `connection` is the file descriptor of the socket to its lane."""
    floats = FloatEnvironment()
    return [*_signals(), *_python(), *_numbers(floats), *_process(), *_files(connection), *_processes()]


def _python() -> Iterator[Row]:
    """The interpreter's own state."""
    for name in ("path", "meta_path", "path_hooks"):
        # Early, as the comparison imports modules that the run of an op does not need.
        yield Row(f"sys.{name}", partial(_tuple_of, sys, name), partial(_set_list, sys, name), _elements, early=True)
    for name in ("excepthook", "unraisablehook", "displayhook", "dont_write_bytecode", "stdin"):
        yield Row(f"sys.{name}", partial(getattr, sys, name), partial(setattr, sys, name))
    yield Row("sys.settrace", sys.gettrace, sys.settrace, early=True)
    yield Row("sys.setprofile", sys.getprofile, sys.setprofile, early=True)
    yield Row("threading.excepthook", lambda: threading.excepthook, partial(setattr, threading, "excepthook"))
    yield Row("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit, early=True)
    yield Row("switch interval", sys.getswitchinterval, sys.setswitchinterval)
    yield Row("largest integer as text", sys.get_int_max_str_digits, sys.set_int_max_str_digits)
    yield Row("garbage collection", _collection, _set_collection)
    yield Row("warnings filters", lambda: tuple(warnings.filters), _set_filters, _elements, early=True)
    yield Row("locale", partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL))
    yield Row("fault handler", faulthandler.is_enabled)
    tempfile.gettempdir()  # decided now, because it is decided once
    yield Row("temporary folder", lambda: tempfile.tempdir, partial(setattr, tempfile, "tempdir"))
    yield Row("time limit of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout)


def _numbers(floats: FloatEnvironment) -> Iterator[Row]:
    """How numbers are computed."""
    yield Row("floating-point mode", floats.mode, lambda _: floats.restore(), _in_hex, early=True)
    yield Row("error state of NumPy", np.geterr, lambda before: np.seterr(**before), early=True)
    blas = _blas_threads()
    if blas is not None:
        yield Row("threads of BLAS", *blas)


def _process() -> Iterator[Row]:
    """What the system keeps of the process."""
    yield Row("environment", _environment, _set_environment, _variables)
    yield Row("current folder", os.getcwd, os.chdir)
    yield Row("root folder", partial(_place, "/"))
    yield Row("umask", _umask, os.umask, lambda before, now: f"{before:o} -> {now:o}")
    # Early, as a process that may open no file reads no golden.
    yield Row("limits", _limits, _set_limits, _changed_limits, early=True)
    yield Row("priority", lambda: os.getpriority(os.PRIO_PROCESS, 0), lambda p: os.setpriority(os.PRIO_PROCESS, 0, p))
    if sys.platform == "linux":
        yield Row("processors", lambda: os.sched_getaffinity(0), lambda before: os.sched_setaffinity(0, before))
        yield Row("scheduler", lambda: os.sched_getscheduler(0))
        yield Row("death with the lane", _death_signal, _set_death_signal)
        yield Row("adopted daemons", _adopts, partial(_LIBC.prctl, _PR_SET_CHILD_SUBREAPER))
        yield Row("rights and signals", _status, None, entries)


def _signals() -> Iterator[Row]:
    """Handlers, masks and timers."""
    yield Row("timers", lambda: [signal.getitimer(timer)[0] > 0 for timer in _TIMERS], _stop_timers, early=True)
    yield Row("signal handlers", lambda: [signal.getsignal(number) for number in _SIGNALS], _set_handlers)
    yield Row("blocked signals", partial(signal.pthread_sigmask, signal.SIG_BLOCK, ()), _set_mask)
    if Path("/proc/self/timers").exists():
        yield Row("timers of the system", partial(_read, "/proc/self/timers"))


def _files(connection: int) -> Iterator[Row]:
    """Files that the worker needs, and how many are open."""
    for descriptor in (0, connection):
        yield Row(f"descriptor {descriptor}", partial(_identity, descriptor))
    for descriptor in (1, 2):
        kept = os.dup(descriptor)  # which a backend will hardly close
        yield Row(f"descriptor {descriptor}", partial(_identity, descriptor), partial(_reopen, descriptor, kept))
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        yield Row(f"sys.{name}", partial(_stream, name), partial(_set_stream, name, descriptor))
    before = _open_files()
    yield Row("open files", lambda: max(0, _open_files() - before - FILES), None, lambda _, now: f"{now + FILES} more")


def _processes() -> Iterator[Row]:
    """What still runs beside the worker."""
    yield Row("threads", _python_threads, None, lambda a, b: _names(b - a) or f"{len(a)} -> {len(b)}")
    yield Row("processes", _children, None, lambda before, now: ", ".join(_command(pid) for pid in now - before))


# --- reading and putting back


def entries(before: dict[Any, Any], now: dict[Any, Any]) -> str:
    """The entries of a mapping that changed."""
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    return ", ".join(f"{_text(key)}: {_text(before.get(key))} -> {_text(now.get(key))}" for key in keys)


def _variables(before: dict[bytes, bytes], now: dict[bytes, bytes]) -> str:
    """The names of the variables that changed, and how; never a value, which may be a secret."""
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    return ", ".join(
        f"{_text(key)} {'set' if key not in before else 'removed' if key not in now else 'changed'}" for key in keys
    )


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else "none" if value is None else str(value)


def _elements(before: tuple[Any, ...], now: tuple[Any, ...]) -> str:
    lost, new = [repr(e) for e in before if e not in now], [repr(e) for e in now if e not in before]
    return "; ".join(filter(None, (f"lost {', '.join(lost)}" * bool(lost), f"new {', '.join(new)}" * bool(new)))) or (
        "another order"
    )


def _in_hex(before: int, now: int) -> str:
    return f"{before:#x} -> {now:#x}"


def _tuple_of(owner: Any, name: str) -> tuple[Any, ...]:
    return tuple(getattr(owner, name))


def _set_list(owner: Any, name: str, before: tuple[Any, ...]) -> None:
    setattr(owner, name, list(before))


def _collection() -> tuple[Any, ...]:
    callbacks = tuple(each for each in gc.callbacks if not _of_jax(each))
    return gc.isenabled(), gc.get_threshold(), gc.get_debug(), callbacks


def _set_collection(before: tuple[Any, ...]) -> None:
    enabled, threshold, debug, callbacks = before
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*threshold)
    gc.set_debug(debug)
    gc.callbacks[:] = [*callbacks, *filter(_of_jax, gc.callbacks)]


def _of_jax(callback: object) -> bool:
    return getattr(callback, "__module__", "") == COLLECTED_BY_JAX


def _set_filters(before: tuple[Any, ...]) -> None:
    warnings.resetwarnings()  # tells the interpreter that its cache of filters is out of date
    warnings.filters[:] = before  # type: ignore[index]


def _blas_threads() -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """Functions that read and set the number of threads of NumPy's own OpenBLAS; None if it is another library."""
    with contextlib.suppress(OSError, StopIteration):
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        path = next(line.split(maxsplit=5)[5] for line in maps if "openblas" in line and ".so" in line)
        library = ctypes.CDLL(path)
        for name in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads"):
            with contextlib.suppress(AttributeError):
                return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


def _environment() -> dict[bytes, bytes]:
    # Decoding all of it through os.environ takes ten times as long.
    data = os.environ._data  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    return {key: value for key, value in data.items() if key not in SET_BY_JAX}


def _set_environment(before: dict[bytes, bytes]) -> None:
    for key in set(os.environb) - set(before) - SET_BY_JAX:
        del os.environb[key]
    for key, value in before.items():
        if os.environb.get(key) != value:
            os.environb[key] = value


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _limits() -> list[tuple[int, int]]:
    return [resource.getrlimit(number) for number in _LIMITS]


def _set_limits(before: list[tuple[int, int]]) -> None:
    for number, limits in zip(_LIMITS, before, strict=True):
        if resource.getrlimit(number) != limits:
            resource.setrlimit(number, limits)


def _changed_limits(before: list[tuple[int, int]], now: list[tuple[int, int]]) -> str:
    changed = zip(_LIMITS.values(), before, now, strict=True)
    return ", ".join(f"{name} {old[0]} -> {new[0]}" for name, old, new in changed if old != new)


def _death_signal() -> int:
    number = ctypes.c_int()
    _LIBC.prctl(_PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    return number.value


def _adopts() -> int:
    """Whether daemons become children of this process (`become_reaper`)."""
    adopts = ctypes.c_int()
    _LIBC.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0)
    return adopts.value


def _set_death_signal(before: int) -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, before, 0, 0, 0)


def _status() -> dict[bytes, bytes]:
    """Lines of /proc about the process; masks of signals without those that the C library keeps for its threads."""
    lines = dict(_STATUS.findall(_read("/proc/self/status")))
    return {
        name: b"%016x" % (int(value, 16) & ~_OF_C_LIBRARY) if name.startswith(b"Sig") else value
        for name, value in lines.items()
    }


def _set_handlers(before: list[Any]) -> None:
    for number, handler in zip(_SIGNALS, before, strict=True):
        if handler is not None and signal.getsignal(number) != handler:
            signal.signal(number, handler)


def _set_mask(before: set[int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stop_timers(_: Any) -> None:
    for timer in _TIMERS:
        signal.setitimer(timer, 0)


def _place(path: str) -> tuple[int, int]:
    status = os.stat(path)  # noqa: PTH116  a Path takes as long again
    return status.st_dev, status.st_ino


def _open_files() -> int:
    """The number of open files; 0 where the system does not show them."""
    try:
        with os.scandir("/proc/self/fd") as entries:
            return sum(1 for _ in entries)
    except OSError:
        return 0


def _identity(descriptor: int) -> tuple[Any, ...]:
    """What a descriptor refers to, and whether it blocks."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_mode, os.get_blocking(descriptor), os.get_inheritable(descriptor)


def _reopen(descriptor: int, kept: int, before: tuple[Any, ...]) -> None:
    os.dup2(kept, descriptor, inheritable=before[4])
    os.set_blocking(descriptor, before[3])


_streams = {"stdout": sys.stdout, "stderr": sys.stderr}


def _stream(name: str) -> tuple[bool, bool]:
    """Whether a stream is the one that it was, and closed."""
    stream = getattr(sys, name)
    return stream is _streams[name], stream.closed


def _set_stream(name: str, descriptor: int, _: Any) -> None:
    """Puts a stream back; opens it again if it was closed."""
    if _streams[name].closed:
        _streams[name] = os.fdopen(descriptor, "w", buffering=1, errors="backslashreplace", closefd=False)
    setattr(sys, name, _streams[name])


def _python_threads() -> frozenset[tuple[int, str]]:
    """Number and name of each thread: the number alone may be that of one that has ended meanwhile."""
    running = frozenset((thread.ident or 0, thread.name) for thread in threading.enumerate())
    # Threads that were not started by `threading` are only counted.
    extra = _thread._count() + 1 - len(running)
    return running | frozenset((number, "") for number in range(-extra, 0))


def _names(new: frozenset[tuple[int, str]]) -> str:
    names = sorted(name for _, name in new if name)
    return ", ".join(names) or (f"{len(new)} without a name" if new else "")


def _children() -> frozenset[int]:
    """The living processes below this one, but for servers of forks, which the comparison starts where it has children.

    Buries dead ones that nobody waits for, because they change nothing.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return frozenset()
    ours = {pid for server in forked.servers() for pid in (server, *process_tree.descendants(server))}
    living = (pid for pid in process_tree.descendants(os.getpid()) if not process_tree.is_zombie(pid))
    return frozenset(living) - ours


def _command(pid: int) -> str:
    try:
        return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip() or f"process {pid}"
    except OSError:
        return f"process {pid}"


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)
