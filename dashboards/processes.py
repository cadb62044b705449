"""Starts, finds and stops the two servers of a dashboard, and no other process.

A process is identified by its id and its start time, because the system may have given the id to another program since.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import psutil

from opscope.base.children import process_tree
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import Home

FILE = "processes.json"
PATIENCE = 20.0
"""Seconds that a server may take to end before it is killed."""
CHILDREN: list[subprocess.Popen[bytes]] = []
"""The servers that this process started and must wait for when they end; those of an earlier command are not here."""


def free_port(host: str) -> int:
    """Returns a port that is free now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def check_port(host: str, port: int, option: str) -> None:
    """Raises DashboardError if `host` is not an address of this machine or the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            got = getattr(error, "strerror", None) or str(error)
            raise DashboardError(option, f"a free port on {host}", f"{port}: {got}", f"another {option}") from None


def running(home: Home) -> dict[str, int]:
    """Name -> process id of each of our servers that runs."""
    return {
        name: process["pid"]
        for name, process in home.read(FILE).items()
        if _is_running(process["pid"], process["started"])
    }


def start(home: Home, name: str, command: list[str], environment: Mapping[str, str], log: Path) -> int:
    """Starts a server in its own session, with its output in `log`, and returns the process id."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=home.folder,
            env=dict(environment),
            start_new_session=True,
        )
    CHILDREN.append(process)
    started = psutil.Process(process.pid).create_time()
    home.write(FILE, home.read(FILE) | {name: {"pid": process.pid, "started": started}})
    return process.pid


def stop(home: Home) -> list[str]:
    """Stops the servers that run, and returns their names."""
    stopped = running(home)
    for pid in stopped.values():
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while (remaining := running(home)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in remaining.values():
        process_tree.kill(pid)
    for child in CHILDREN:
        child.poll()
    (home.folder / FILE).unlink(missing_ok=True)
    return list(stopped)


def wait_until_it_answers(home: Home, name: str, url: str, log: Path, seconds: float) -> None:
    """Waits until GET `url` returns 200. Raises DashboardError with the log's end if the server ends or hangs."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        if name not in running(home):
            break
        time.sleep(0.1)
    state = "hangs" if name in running(home) else "ended"
    raise DashboardError(f"opscope dashboard: {name}", "to be served", f"a server that {state}", f"the end of {log}")


def _is_running(pid: int, started: float) -> bool:
    for child in CHILDREN:
        child.poll()
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
