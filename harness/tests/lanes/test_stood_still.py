"""A machine that stands still (Ctrl-Z, `docker pause`, a lid) takes none of an op's time; what never ends is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opscope.harness.tests.acceptance.test_endings import children
from opscope.harness.tests.own_backend import own_backend

pytestmark = pytest.mark.slow

LIMIT, STOPPED = 9.0, 13.0
WORK = "began = time.process_time()\nwhile time.process_time() - began < SECONDS: pass"

RUN = """
import sys, time
from pathlib import Path
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.record.optest import RunContext
from opscope.harness.tests.ops import add_row

folder, limit = Path(sys.argv[1]), float(sys.argv[2])
context = RunContext("r", str(folder / "run"), str(folder / "busy.py"))
with Lane(LaneConfig(context, {"toy": str(folder)}, limit)) as lane:
    lane.ready()
    row, began = add_row(folder, "op"), time.monotonic()
    print("ready", flush=True)
    test = lane.run(row)
    print(test.status, time.monotonic() - began, test.error_message or "", flush=True)
"""


def ran(folder: Path, seconds: float, *, all_of_it: bool = True) -> tuple[str, float]:
    """How an op ends that computes for some seconds, and when, if its run is stopped after half a second."""
    (folder / "busy.py").write_text(
        own_backend("busy", WORK.replace("SECONDS", str(seconds)), stages="Stage.RUN", top="import time")
    )
    command = [sys.executable, "-P", "-c", RUN, str(folder), str(LIMIT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        time.sleep(0.5)
        stopped = [run.pid, *(children(run.pid) if all_of_it else ())]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in stopped:
                os.kill(pid, number)
            time.sleep(STOPPED if number is signal.SIGSTOP else 0)
        status, took, *_ = run.stdout.readline().split()
    return status, float(took)


@pytest.mark.parametrize("all_of_it", [True, False], ids=["pause", "Ctrl-Z"])
def test_an_op_that_was_stopped_has_its_time_still(tmp_path: Path, all_of_it: bool) -> None:
    status, took = ran(tmp_path, 1.0, all_of_it=all_of_it)
    assert took > STOPPED
    assert status in ("success", "stopped"), "a backend that computes nothing"


def test_an_op_that_never_ends_is_ended_after_its_limit_and_the_gap_on_a_busy_machine(tmp_path: Path) -> None:
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        status, took = ran(tmp_path, 1e9)
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert status == "timeout"
    assert LIMIT + STOPPED - 3 < took < LIMIT + STOPPED + 5
