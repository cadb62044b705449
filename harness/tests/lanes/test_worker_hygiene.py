"""What a worker notices and puts back, one thing at a time, in this process."""

from __future__ import annotations

import builtins
import ctypes
import gc
import locale
import math
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from opscope.base.children import forked
from opscope.base.children.call import call
from opscope.base.tests.captured import captured
from opscope.base.tests.own_fork_server import own_fork_server
from opscope.harness.lanes import process_state
from opscope.harness.lanes.float_environment import FloatEnvironment
from opscope.harness.lanes.worker_hygiene import WorkerState
from opscope.harness.verdict import check, compare, tolerance


@pytest.fixture
def connection() -> Iterator[int]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield theirs.fileno()


def half_the_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))


UNDONE: dict[str, Callable[[], object]] = {
    "sys.path": lambda: sys.path.clear(),
    "sys.meta_path": lambda: sys.meta_path.insert(0, object()),
    "sys.excepthook": lambda: setattr(sys, "excepthook", print),
    "sys.setprofile": lambda: sys.setprofile(lambda *_: None),
    "recursion limit": lambda: sys.setrecursionlimit(500),
    "switch interval": lambda: sys.setswitchinterval(1),
    "garbage collection": gc.disable,
    "warnings filters": lambda: warnings.filterwarnings("error", message="of an op"),
    "floating-point mode": lambda: ctypes.CDLL("libm.so.6").fesetround(0x800),
    "error state of NumPy": lambda: np.seterr(all="raise"),
    "environment": lambda: os.environ.update(OPSCOPE_NEW="1"),
    "current folder": lambda: os.chdir("/"),
    "umask": lambda: os.umask(0o77),
    "limits": half_the_files,
    "signal handlers": lambda: signal.signal(signal.SIGUSR2, print),
    "blocked signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]),
    "timers": lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 100),
}


def test_it_is_noticed_and_put_back(connection: int) -> None:
    """One after another: what is not put back would be seen again beside the next."""
    state = WorkerState(connection)  # here, because pytest changes the environment before
    for what, undone in UNDONE.items():
        if what == "floating-point mode" and not FloatEnvironment().mode():
            continue  # the layout of this machine's floating-point state is unknown
        undone()
        changes = {change.what: change for change in state.changes()}
        assert what in changes, (what, changes)
        assert changes[what].undone or what == "signal handlers", changes
        assert changes.keys() <= {what, "rights and signals"}
    assert {change.what for change in state.changes()} <= {"rights and signals"}, "once"


def test_values_of_variables_are_not_shown(connection: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPSCOPE_REMOVED", "geheim")
    monkeypatch.setenv("OPSCOPE_CHANGED", "geheim")
    state = WorkerState(connection)
    os.environ.update(OPSCOPE_CHANGED="geheim too", OPSCOPE_NEW="geheim as well")
    del os.environ["OPSCOPE_REMOVED"]
    (change,) = state.changes()
    details = {"OPSCOPE_REMOVED removed", "OPSCOPE_CHANGED changed", "OPSCOPE_NEW set"}
    assert set(change.detail.split(", ")) == details


@pytest.mark.slow
def test_loading_jax_is_no_change(tmp_path: Path) -> None:
    loads = (
        "import sys, socket\n"
        "from opscope.harness.lanes.worker_hygiene import WorkerState\n"
        "ends = socket.socketpair()\n"
        "state = WorkerState(ends[1].fileno())\n"
        "import jax\n"
        "print([change.what for change in state.changes()])\n"
    )
    run = captured([sys.executable, "-c", loads], cwd=tmp_path, timeout=60, check=True)
    assert run.stdout == "[]\n"


def test_a_thread_and_replaced_code_are_noticed_and_stay(connection: int, monkeypatch: pytest.MonkeyPatch) -> None:
    state = WorkerState(connection)
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="stays")
    thread.start()
    monkeypatch.setattr(np, "sum", lambda *_: 0)
    monkeypatch.setattr(check, "OUTLIER", 1.0)
    monkeypatch.setattr(builtins, "sorted", list)
    monkeypatch.setattr(os, "getcwd", lambda: "/")
    monkeypatch.delitem(sys.modules, "opscope.harness.verdict.tolerance")
    changes = [(change.what, change.detail, change.undone, change.verdict) for change in state.changes()]
    end.set()
    thread.join()
    assert set(changes) >= {
        ("threads", "stays", False, False),
        ("code", "numpy.sum replaced", False, True),
        ("code", "builtins.sorted replaced", False, True),
        ("code", "opscope.harness.verdict.check.OUTLIER replaced", False, True),
        ("code", "os.getcwd replaced", False, False),
        ("code", "sys.modules.opscope.harness.verdict.tolerance (removed) replaced", False, False),
    }


def test_the_body_of_a_function_and_a_row_of_a_table_count_too(
    connection: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = WorkerState(connection)
    name = next(iter(tolerance.TABLE))
    monkeypatch.setitem(tolerance.TABLE, name, None)
    monkeypatch.setattr(compare.compare, "__kwdefaults__", {})
    assert {change.detail for change in state.changes() if change.verdict} == {
        "opscope.harness.verdict.tolerance.TABLE replaced",
        "opscope.harness.verdict.meaning.TABLE replaced",  # the same table
        "opscope.harness.verdict.compare.compare replaced",
    }


def test_the_comparison_computes_as_before(connection: int) -> None:
    state = WorkerState(connection)
    if not FloatEnvironment().mode():
        pytest.skip("the layout of this machine's floating-point state is unknown")
    ctypes.CDLL("libm.so.6").fesetround(0x800)
    state.before_compare()
    assert math.sqrt(2) == 1.4142135623730951
    assert [change.what for change in state.changes()] == ["floating-point mode"], "and it is said"


def test_the_comparison_can_import_and_read(connection: int) -> None:
    state = WorkerState(connection)
    path, limits = list(sys.path), resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        sys.path.clear()
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        state.before_compare()
        assert sys.path == path
        assert Path(__file__).read_bytes()
        assert {change.what for change in state.changes()} == {"sys.path", "limits"}, "and it is said"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        sys.path[:] = path


def test_a_server_of_forks_that_the_comparison_starts_is_no_change(connection: int) -> None:
    """A second authority is a child of the lane."""
    with own_fork_server():
        state = WorkerState(connection)
        state.run(lambda: call("opscope.base.tests.child_functions:harm", {"how": "raise"}))
        assert forked.servers()
        assert [change for change in state.changes() if change.what == "processes"] == []
    program = state.run(lambda: subprocess.Popen(["sleep", "60"]))
    try:
        [left] = [change for change in state.changes() if change.what == "processes"]
        assert left.detail == "sleep 60"
    finally:
        program.kill()
        program.wait()


def test_every_op_begins_with_the_same_random_state_and_leaves_no_context(connection: int) -> None:
    state = WorkerState(connection)

    def draw() -> tuple[float, float]:
        np.seterr(all="raise")
        return random.random(), float(np.random.rand())

    before = np.geterr()
    assert state.run(draw) == state.run(draw)
    assert np.geterr() == before


def test_lazy_loading_is_no_change(connection: int, tmp_path: Path) -> None:
    state = WorkerState(connection)
    (tmp_path / "left.txt").write_text("x")
    sys.modules["opscope_loaded_lazily"] = sys
    files = [(tmp_path / "left.txt").open() for _ in range(3)]
    try:
        assert state.changes() == []
    finally:
        del sys.modules["opscope_loaded_lazily"]
        for file in files:
            file.close()


def test_handlers_of_the_c_library_for_its_threads_are_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_state, "_read", lambda path: b"Uid:\t0\t0\nSigCgt:\t0000000180000200\n")
    assert process_state._status() == {b"Uid": b"0\t0", b"SigCgt": b"0000000000000200"}


def test_a_description_is_short() -> None:
    row = process_state.Row("x", lambda: 0)
    assert len(row.described("y" * 1000, 1)) < 210
    assert locale.setlocale(locale.LC_ALL)
