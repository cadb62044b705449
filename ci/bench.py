"""Runs sweeps for measurement, in a scratch folder with its own caches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
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


def table(module: str, *arguments: str) -> list[dict[str, str]]:
    """Runs a benchmark and returns the rows of the Markdown table that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    output = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout
    heads, _, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in output.splitlines())
    return [dict(zip(heads, row, strict=True)) for row in rows]
