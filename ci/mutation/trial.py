"""Runs chosen tests against one mutant in the copy."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.mutation import tree

CAUGHT, SURVIVED, UNDECIDED, NOT_RUN = ENDINGS = "noticed", "survived", "not decided", "no test runs it"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    ending: str
    by: str = ""
    """The test that failed; or why there is none."""
    seconds: float = 0.0


def attempt(folder: Path, path: str, mutated: str, tests: Sequence[str], limit: float) -> Outcome:
    """Writes the mutated file, runs the tests until one fails and puts the file back.

    A run that takes more than `limit` seconds is ended with all that it started, and counts as noticed: a test that
    hangs is seen by whoever waits for it.
    """
    file = folder / path
    before, started = file.read_text(), time.monotonic()
    file.write_text(mutated)
    try:
        code, output = run(folder, ["-x", *tests], limit)
        if gone := not_found(output, tests):  # the coverage run was of another tree
            tests = [test for test in tests if test not in gone]
            code, output = run(folder, ["-x", *tests], limit) if tests else (0, "")
    finally:
        file.write_text(before)
    seconds = round(time.monotonic() - started, 1)
    if code is None:
        return Outcome(CAUGHT, f"no end within {limit:.0f} s", seconds)
    if code == 0:
        return Outcome(SURVIVED, f"{len(tests)} tests", seconds)
    if failed := failures(output):
        return Outcome(CAUGHT, failed[0], seconds)
    return Outcome(CAUGHT, f"exit code {code}", seconds)


def not_found(output: str, tests: Sequence[str]) -> set[str]:
    """Those of `tests` that pytest did not find."""
    lines = {line.split(": not found: ", 1)[1] for line in output.splitlines() if line.startswith("ERROR: not found: ")}
    return {test for test in tests if any(line.endswith((test, test.partition("[")[0])) for line in lines)}


def failures(output: str) -> list[str]:
    """The node ids of failed tests in what `run` returned."""
    lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return [line.split(" ", 1)[1].split(" - ")[0] for line in lines]


@functools.cache
def _warm(folder: Path) -> subprocess.Popen[str]:
    """The process of the copy whose forks run pytest; it ends with this one."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.Popen(
        [tree.python(folder), "-m", "ci.mutation.warm"], cwd=folder, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def run(folder: Path, words: Sequence[str], limit: float) -> tuple[int | None, str]:
    """Runs pytest in the copy; returns its exit code, None if it took too long, and its output."""
    options = [
        "-p", "no:benchmark", "-p", "no:randomly", "-p", "no:cacheprovider", "-q", "-rfE", "--tb=no", "--color=no",
        "-m", "not slow",
    ]  # fmt: skip
    server = _warm(folder)
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.NamedTemporaryFile("r", errors="replace") as output:
        task = {"words": [*options, *words], "output": output.name, "limit": limit}
        server.stdin.write(json.dumps(task) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        if not answer:
            raise SystemExit("mutation: expected an exit code of pytest, got the end of the process that forks it")
        return json.loads(answer), output.read()
