"""xdist workers that start while models are prepared: none is left where the run is refused, interrupted or killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from opscope.base.children.process_tree import descendants
from opscope.harness.tests.acceptance.conftest import Place

pytestmark = pytest.mark.slow

ENDLESS = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %true = stablehlo.constant dense<true> : tensor<i1>
  %r = stablehlo.while(%x = %a) : tensor<4xf32>
    cond { stablehlo.return %true : tensor<i1> }
    do { %y = stablehlo.add %x, %x : tensor<4xf32>
         stablehlo.return %y : tensor<4xf32> }
  return %r : tensor<4xf32> }"""
"""A model whose preparation takes as long as it may."""


def until(is_true: Callable[[], Any], seconds: float) -> Any:
    """Waits for something. Fails after some seconds."""
    end = time.monotonic() + seconds
    while not (value := is_true()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)
    return value


def begun(place: Place, out: IO[bytes]) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A run whose workers wait for their orders, with all of its processes."""
    (place.folder / "endless.mlir").write_text(ENDLESS)
    run = place.start("pytest", "--model", "endless.mlir", "--op-by-op", "-n", "2", output=out)

    def waiting() -> list[int]:
        below = descendants(run.pid)
        commands = [command_of(pid) for pid in below]
        servers = sum("fork_server" in command for command in commands)
        return below if sum("sys.stdin.readline" in command for command in commands) == 2 and servers >= 3 else []

    return run, until(waiting, 60)


def command_of(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    except OSError:
        return ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_a_run_that_ends_while_they_wait(place: Place, number: signal.Signals, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        run, processes = begun(place, out)
        os.kill(run.pid, number)  # the controller alone
        run.wait(30)
        until(lambda: not any(map(command_of, processes)), 30)
    if number == signal.SIGINT:
        text = (tmp_path / "out").read_text(encoding="utf-8")
        assert "interrupted while preparing; no op has run" in text
        assert "Traceback" not in text
        assert run.returncode == 2


def test_a_refused_model_is_one_line_and_ends_the_workers(place: Place) -> None:
    (place.folder / "bad.mlir").write_text("module { nonsense }")
    done = place.run("pytest", "--model", "bad.mlir", "--op-by-op", "-n", "2", "-q")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "bad.mlir:1:10: expected valid StableHLO" in done.err
