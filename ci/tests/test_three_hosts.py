"""Three hosts without a common file system: one is switched off, and however it ends nothing is left of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = {"PYTHONPATH": str(ROOT)}
COMMAND = (sys.executable, "-m", "ci.three_hosts", "--model", "mnist_mlp")

pytestmark = pytest.mark.slow
pytest.importorskip("distributed", reason="pip install -e '.[cluster]'")


def test_a_host_that_dies_changes_no_record(tmp_path: Path) -> None:
    words, environment = [*COMMAND, "--case", "dies"], os.environ | SOURCES
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    _skip_where_not_permitted(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    heads, _, alone, died = ([cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines())
    rows = [dict(zip(heads, row, strict=True)) for row in (alone, died)]
    assert [row["ops"] for row in rows] == ["24", "24"]
    assert 0 < int(rows[1]["at the loss"]) < 24
    assert [(row["records"], row["goldens"]) for row in rows] == [("equal", "equal")] * 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_no_host_outlives_the_program(number: signal.Signals, tmp_path: Path) -> None:
    program = subprocess.Popen(
        COMMAND,
        cwd=tmp_path,
        env=os.environ | SOURCES,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    while not (started := _hosts(program.pid)):
        if program.poll() is not None:
            _skip_where_not_permitted(program.communicate()[0])
        time.sleep(0.05)
    os.kill(program.pid, number)
    program.communicate()
    assert program.returncode
    _, alive = psutil.wait_procs(started, timeout=60)
    assert not alive


def _skip_where_not_permitted(output: str) -> None:
    if output.startswith("skipped: "):
        pytest.skip(output.strip())


def _hosts(program: int) -> list[psutil.Process]:
    """The processes of a program, once the first process of a host is among them."""
    with contextlib.suppress(psutil.Error):
        processes = psutil.Process(program).children(recursive=True)
        if any(process.cmdline()[1:3] == ["-m", "ci.three_hosts.init"] for process in processes):
            return processes
    return []
