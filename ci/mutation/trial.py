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

    A test that fails has to fail once more by itself: on a busy machine some fail by accident, and are left out. A run
    that takes more than `limit` seconds is ended with all that it started and counts as noticed, since a test that
    hangs is seen by whoever waits for it; so does one that ends without naming a test. But the same tests have to pass
    without the mutant, in the same time: otherwise it was the machine, and the mutant is not decided.
    """
    file = folder / path
    before, started = file.read_text(), time.monotonic()
    file.write_text(mutated)
    try:
        tests, code, failed = _until_proven(folder, tests, limit)
    finally:
        file.write_text(before)
    if code == 0 or failed:
        seconds = round(time.monotonic() - started, 1)
        return Outcome(CAUGHT, failed, seconds) if failed else Outcome(SURVIVED, f"{len(tests)} tests", seconds)
    why = f"no end within {limit:.0f} s" if code is None else f"exit code {code}"
    without, _ = run(folder, ["-x", *tests], limit)
    seconds = round(time.monotonic() - started, 1)
    if without != 0:
        return Outcome(UNDECIDED, f"{why}, nor did the tests pass without it", seconds)
    return Outcome(CAUGHT, why, seconds)


def _until_proven(folder: Path, tests: Sequence[str], limit: float) -> tuple[Sequence[str], int | None, str]:
    """Runs the tests until one fails twice; returns those that were asked, the last exit code, and that test."""
    while tests:
        code, output = run(folder, ["-x", *tests], limit)
        unfit = not_found(output, tests)  # the coverage run was of another tree
        if not unfit and code != 0 and (failed := failures(output)):
            if run(folder, [failed[0]], limit)[0] != 0:
                return tests, code, failed[0]
            unfit = {test for test in tests if test.startswith(failed[0])}
        if not unfit:
            return tests, code, ""
        tests = [test for test in tests if test not in unfit]
    return tests, 0, ""


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
        [tree.python(folder), "-m", "ci.mutation.warm"],
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def run(folder: Path, words: Sequence[str], limit: float) -> tuple[int | None, str]:
    """Runs pytest in the copy; returns its exit code, None if it took too long, and its output."""
    server = _warm(folder)
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.NamedTemporaryFile("r", errors="replace") as output:
        task = {"words": [*tree.OPTIONS, "-m", "not slow", *words], "output": output.name, "limit": limit}
        server.stdin.write(json.dumps(task) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        if not answer:
            raise SystemExit("mutation: expected an exit code of pytest, got the end of the process that forks it")
        return json.loads(answer), output.read()
