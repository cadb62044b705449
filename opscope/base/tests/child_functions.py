"""Functions that the tests of this folder run in child processes."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from opscope.base.children.call import call
from opscope.base.children.inside import Parent, is_child


def add(parent: Parent) -> int:
    task = parent.task()
    for number in task["numbers"]:
        parent.send({"seen": number})
    print("added")
    return sum(task["numbers"])


def environment(parent: Parent) -> dict[str, Any]:
    return {**{name: os.environ.get(name, "") for name in parent.task()["names"]}, "path": sys.path}


def describe(parent: Parent) -> dict[str, Any]:
    """What a function may find of the process that it runs in."""
    parent.task()
    descriptors = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    kinds = {number: _kind_of(number) for number in descriptors if _kind_of(number)}
    marks = [name for name in os.environ if name.startswith("OPSCOPE_CHILD_")]
    return {
        "environment": {name: value for name, value in os.environ.items() if name not in marks},
        "marks": len(marks),
        "C library's environment": subprocess.run(["env", "-0"], capture_output=True, check=True).stdout.count(b"\0"),
        "folder": str(Path.cwd()),
        "path": sys.path,
        "flags": list(sys.flags),
        "arguments": len(sys.argv),
        "descriptors": sorted(kinds.values()),
        "inherited": [fd for fd in kinds if os.get_inheritable(fd)],
        "leads": [os.getpid() == os.getsid(0), os.getpid() == os.getpgid(0)],
        "signals": {
            str(int(number)): repr(signal.getsignal(number)).partition(" at ")[0] for number in signal.valid_signals()
        },
        "blocked": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
        "limits": [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")],
        "threads": threading.active_count(),
        "is a child": is_child(),
        "faults": faulthandler.is_enabled(),
        "collects": gc.isenabled(),
        "nice": os.nice(0),
        "encodings": [sys.stdout.encoding, sys.getfilesystemencoding()],
        "buffered": [sys.stdout.write_through, sys.stdout.isatty()],
    }


def _kind_of(descriptor: int) -> str:
    """What a descriptor leads to; empty if it is closed."""
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink()).partition(":")[0]
    except OSError:
        return ""


def kind(parent: Parent) -> str:
    """Whether this process is a fork of the server or an interpreter of its own."""
    parent.task()
    return "fork" if b"fork_server" in Path("/proc/self/cmdline").read_bytes() else "interpreter"


def called_ahead(parent: Parent) -> list[list[str]]:
    """The calls of `note` that this process, or the one that it is a fork of, has seen."""
    parent.task()
    return NOTED


NOTED: list[list[str]] = []


def note(*words: str) -> None:
    """Called ahead: keeps its words, or fails if there is none."""
    NOTED.append([words[0], *words[1:]])


def leave(*_words: str) -> None:
    """Called ahead: ends the process, as a framework may that finds itself broken."""
    sys.exit("broken")


def note_word(module: str) -> None:
    """Called ahead: imports a module and keeps its word."""
    NOTED.append([importlib.import_module(module).WORD])


def echo(parent: Parent) -> None:
    while (message := parent.receive()) is not None:
        parent.send(message)


def harm(parent: Parent) -> None:
    """Ends in the way that the task names."""
    how = parent.task()["how"]
    print("about to", how)
    if how == "raise":
        raise ValueError("two\nlines")
    if how == "exit":
        sys.exit(3)
    if how == "leave":
        os._exit(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "fault":
        ctypes.string_at(0)
    if how == "garbage":
        os.write(parent.descriptor, b"no frame")
    if how == "hang up":
        os.close(parent.descriptor)
    if how == "fill memory":
        memory = bytearray(os.urandom(1 << 20) * 200)
        assert memory
    time.sleep(60)


def report_forever(parent: Parent) -> None:
    parent.task()
    pieces = []
    while True:
        parent.send({"so far": len(pieces)})
        pieces.append(bytearray(1 << 14) + b"1")


def leave_strays(parent: Parent) -> list[int]:
    """Starts a process in this group and one in a session of its own, and returns at once or never."""
    task = parent.task()
    command = ["sleep", "600"]
    numbers = [subprocess.Popen(command, start_new_session=apart).pid for apart in (False, True)]
    parent.send({"strays": numbers})
    if not task["returns"]:
        time.sleep(60)
    return numbers


def leave_daemon(parent: Parent) -> None:
    """Starts a daemon, whose parent ends at once, and then waits or dies, as the task says."""
    dies = parent.task()["dies"]
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write, str(os.getpid()).encode())
            time.sleep(600)
        os._exit(0)
    parent.send({"daemon": int(os.read(read, 100))})
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def answer_from_copy(parent: Parent) -> str:
    """Answers; so does a copy, first through its `Parent`, and another one by writing to the socket."""
    parent.task()
    for writes in (False, True):
        copy = os.fork()
        if copy == 0:
            if writes:
                os.write(parent.descriptor, b"garbage")
                os._exit(0)
            parent.send({"from": "a copy"})
            os._exit(0)
        os.waitpid(copy, 0)
    parent.send({"from": "the child"})
    return "done"


def hang(parent: Parent) -> None:
    Path(parent.task()["mark"]).write_text(str(os.getpid()))
    time.sleep(600)


def call_hang(mark: str) -> None:
    """Run by a process that the test kills."""
    call("opscope.base.tests.child_functions:hang", {"mark": mark})


def stop_server(parent: Parent) -> str:
    """Stops the process of which this one is a fork."""
    os.kill(os.getppid(), signal.SIGSTOP)
    return "stopped"


def pid_and_parent(parent: Parent) -> list[int]:
    """The numbers of this process and of its parent."""
    return [os.getpid(), os.getppid()]


def kill_parent(parent: Parent) -> None:
    """Ends the process that this one is a fork of."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def find_devices(parent: Parent) -> str:
    """Has JAX look for devices, as an exporter does without knowing it."""
    import jax

    try:
        return ",".join(device.platform for device in jax.devices())
    except RuntimeError as error:
        return str(error)


def import_jax() -> None:
    """Has the process of which children are forks import JAX."""
    import jax  # noqa: F401
