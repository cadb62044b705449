"""A clock that is set back by two days while opscope works: a sweep, a resume, publishing, the upkeep of the cache.

libfaketime sets the clock of the processes alone (Debian's package `libfaketime`, or the library's path in
`LIBFAKETIME`); never that of the machine. Without it every attempt is skipped, which is said.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from ci.attacks.attempt import Attempt
from ci.attacks.called import Called, opscope
from ci.faults import module_text
from ci.sweep_command import sweep_command

OPS, LIMIT = 12, 300
SAMPLE, FULL = 1, 8
OWN_SLEEP = Path(__file__).with_name("own_sleep")
"""What libfaketime needs of Python, for all processes of an attack."""


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """One attempt after the other of the four kinds."""
    library = _library()
    if library is None:
        for _ in range(count):
            yield Attempt("skipped", "no libfaketime: install Debian's libfaketime or set LIBFAKETIME", "no effect")
        return
    draw = random.Random(seed)
    kinds = [_sweep, _resume, _publish, _upkeep]
    for number in range(count):
        place = _Place(folder / str(number), library)
        kind = kinds[number % len(kinds)]
        try:
            problem = kind(place, draw)
        except subprocess.TimeoutExpired as error:
            yield Attempt(kind.__name__.strip("_"), "two days back", "stuck", str(error))
            continue
        yield Attempt(kind.__name__.strip("_"), "two days back", "silent" if problem else "no effect", problem)


class _Place:
    """A folder with a module, its own cache, and a clock of its own."""

    def __init__(self, folder: Path, library: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.run, self._clock = folder, folder / "run", folder / "clock"
        (folder / "ops.mlir").write_text(module_text(OPS), encoding="utf-8")
        self.environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "OPSCOPE_CACHE_DIR": str(folder / "cache"),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(OWN_SLEEP), os.environ.get("PYTHONPATH", "")])),
        }
        self.set_clock(0)

    def set_clock(self, days: int) -> None:
        """Sets the clock that many days forward."""
        whole = self._clock.with_suffix(".new")
        whole.write_text(f"{days:+d}d\n", encoding="ascii")
        whole.replace(self._clock)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts a sweep."""
        return subprocess.Popen(
            sweep_command("--backend stablehlo-interpreter --budget 1h", *words),
            cwd=self.folder,
            env=self.environment,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def opscope(self, *words: str) -> Called:
        """Runs a command of opscope."""
        return opscope(self.folder, *words, seconds=LIMIT, environment=self.environment)

    def sweep(self) -> subprocess.Popen[str]:
        """Starts a sweep over the module."""
        return self.start("--model", "ops.mlir", "--run-dir", str(self.run))

    def wait_for(self, records: int, process: subprocess.Popen[str]) -> None:
        """Waits until a sweep has written so many records, or has ended."""
        until = time.monotonic() + LIMIT
        while len(self.records()) < records and process.poll() is None:
            if time.monotonic() > until:
                process.kill()
                raise subprocess.TimeoutExpired(process.args, LIMIT)
            time.sleep(0.01)

    def records(self) -> list[dict[str, Any]]:
        """The records of the run so far."""
        parsed = []
        for path in (self.run / "journal").glob("*.jsonl"):
            whole = path.read_bytes().rpartition(b"\n")[0]
            parsed += [json.loads(line) for line in whole.splitlines()]
        return parsed

    def problem(self, output: str, code: int | None) -> str:
        """What is wrong with the run; empty if nothing is."""
        records = self.records()
        right = {record["op_id"] for record in records if record["status"] == "success"}
        wrong = [f"exit {code}"] * (code != 0) + [f"{len(right)} of {OPS} ops right"] * (len(right) != OPS)
        for record in records:
            begin, end = (datetime.fromisoformat(record[key]) for key in ("test_start_ts", "test_end_ts"))
            if end < begin or any(stage["seconds"] < 0 for stage in record["stages"]):
                wrong.append(f"{record['op_id']} has a negative duration")
        return f"{wrong}\n{output[-2000:]}" if wrong else ""


def _sweep(place: _Place, draw: random.Random) -> str:
    process = place.sweep()
    place.wait_for(draw.randrange(0, OPS), process)
    place.set_clock(-2)
    output, _ = process.communicate(timeout=LIMIT)
    return place.problem(output, process.returncode)


def _resume(place: _Place, draw: random.Random) -> str:
    process = place.sweep()
    place.wait_for(draw.randrange(1, OPS - 1), process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT)
    place.set_clock(-2)
    process = place.start("--resume", str(place.run))
    output, _ = process.communicate(timeout=LIMIT)
    return place.problem(output, process.returncode)


def _publish(place: _Place, draw: random.Random) -> str:
    process = place.sweep()
    output, _ = process.communicate(timeout=LIMIT)
    database = f"sqlite:///{place.folder / 'results.db'}"
    problems = []
    for days in (0, -2, draw.randrange(-400, 400)):
        place.set_clock(days)
        done = place.opscope("publish", str(place.run), "--to", database)
        problems += [f"publish: exit {done.code}: {done.text}"] * (done.code != 0)
        shown = place.opscope("status", "--database", database)
        problems += [shown.text] * ("Traceback" in shown.text)
    return place.problem(output, process.returncode) or "\n".join(problems)


def _upkeep(place: _Place, draw: random.Random) -> str:
    """The cache was filled in what is now the future: it is used, kept in size, and cleaned."""
    place.set_clock(draw.randrange(3, 300))
    process = place.sweep()
    output, _ = process.communicate(timeout=LIMIT)
    problem = place.problem(output, process.returncode)
    place.set_clock(0)
    shutil.rmtree(place.run)
    process = place.sweep()
    output, _ = process.communicate(timeout=LIMIT)
    cleaned = place.opscope("clean")
    broken = f"clean: exit {cleaned.code}: {cleaned.text}" * (cleaned.code != 0)
    return problem or place.problem(output, process.returncode) or broken


def _library() -> Path | None:
    """libfaketime, if it is installed."""
    named = os.environ.get("LIBFAKETIME")
    candidates = [Path(named)] if named else sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    return next((path for path in candidates if path.is_file()), None)
