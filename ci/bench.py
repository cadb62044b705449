"""Runs sweeps for measurement, in a scratch folder with its own caches."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parent.parent
MODELS = ("mnist_mlp", "resnet50", "bert_base", "vit_base", "gpt2_small")


class Bench:
    """A scratch folder with its own caches, in which sweeps run."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(scratch / "cache")}

    def sweep(self, model: str, *options: str) -> tuple[float, dict]:
        """Runs a sweep; returns the seconds of the whole command, and the run as `opscope show --json` prints it."""
        run = self.scratch / f"run-{time.monotonic_ns()}"
        command = [BIN / "pytest", "--model", model, "--op-by-op", "-q", "--run-dir", run, *options]
        started = time.monotonic()
        done = subprocess.run(command, cwd=self.scratch, env=self.environment, text=True, capture_output=True)
        seconds = time.monotonic() - started
        if done.returncode:
            print(done.stdout, done.stderr, file=sys.stderr)
        shown = subprocess.run(
            [BIN / "opscope", "show", run, "--json"],
            cwd=self.scratch,
            env=self.environment,
            text=True,
            capture_output=True,
            check=True,
        )
        return seconds, json.loads(shown.stdout)


def compile_milliseconds(run: dict) -> list[float]:
    """Milliseconds that all stages before `run` took, for each op of a run."""
    return [
        1000 * sum(stage["seconds"] for stage in op["stages"] if stage["stage"] not in ("split", "run", "compare"))
        for op in run["op_tests"]
    ]


def tool(module: str, *words: str, check: bool = False) -> tuple[str, int]:
    """Runs `python -m MODULE WORDS`, shows what it prints, and returns that and the exit code."""
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=check)
    print(done.stdout)
    return done.stdout, done.returncode


def table(module: str, *arguments: str) -> list[dict[str, str]]:
    """Runs a benchmark and returns the rows of the Markdown table that it prints."""
    output, _ = tool(module, *arguments, check=True)
    heads, _, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in output.splitlines())
    return [dict(zip(heads, row, strict=True)) for row in rows]


@contextlib.contextmanager
def cluster(
    workers: int, devices: int = 1, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[int]]]:
    """Starts a local Dask scheduler and workers with so many devices each; yields the scheduler's address, and the
    numbers of these processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    dask = [sys.executable, "-P", "-m"]
    commands = [[*dask, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", address.split(":")[-1]]]
    worker = [*dask, "distributed.cli.dask_worker", address, "--host", "127.0.0.1", "--nthreads", str(devices)]
    commands += [[*worker, "--no-nanny", "--resources", f"device={devices}"]] * workers
    with tempfile.TemporaryDirectory() as scratch:
        started = [
            subprocess.Popen([*command, "--no-dashboard"], cwd=scratch, env=environment, stderr=subprocess.DEVNULL)
            for command in commands
        ]
        try:
            yield address, [process.pid for process in started]
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()
