"""For the environment of a coverage run: SIGKILL is SIGTERM first, so that a child writes down what it ran.

The parent stops a child of opscope and ends it by SIGKILL as soon as it has its answer. Coverage writes its data when
it gets SIGTERM (`sigterm = true`), and a stopped process gets it once it goes on. Loaded by a `.pth` file in every
process of the copy, and idle unless `COVERAGE_PROCESS_START` is set.
"""

from __future__ import annotations

import os
import signal
import time

GRACE = 5.0
"""Seconds that a process has to write down what it ran."""


def install() -> None:
    """Replaces `os.kill` and `os.killpg` of this process."""
    kill, killpg = os.kill, os.killpg

    def softly(send, pid, number):
        if number == signal.SIGKILL:
            send(pid, signal.SIGTERM)
            send(pid, signal.SIGCONT)
            until = time.monotonic() + GRACE
            while _runs(pid) and time.monotonic() < until:
                time.sleep(0.005)
        send(pid, number)

    os.kill = lambda pid, number: softly(kill, pid, number)
    os.killpg = lambda pid, number: softly(killpg, pid, number)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123  loaded at every start: no imports
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


if "COVERAGE_PROCESS_START" in os.environ:
    install()
