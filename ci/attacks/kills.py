"""Kills of one process of a run at seeded moments: what is resumed ends as an undisturbed run.

Every target (the controller, the server that children are forks of, a lane's child, the child that evaluates goldens,
a fork of that one, the exporter) gets HUP, TERM and KILL, with one lane and with two, with nothing in the cache and
with the exports there (no goldens are made then, and nothing is exported). Afterwards `--resume` goes on, or the same
command line where there is no run yet.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.attacks.attempt import Attempt, Ending
from ci.attacks.called import UNEXPLAINED
from ci.benchmarks.scaling import module
from ci.sweep_command import sweep_command

SAMPLE, FULL = 2, 60
SECONDS = 900.0
"""Limit of one run."""
GONE = 30.0
"""Seconds after the end of its controller in which a run's processes have to end."""

SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL)
COLD = ("controller", "server", "lane", "golden", "exporter")
WARM = ("controller", "server", "lane")
FORK = "fork"
"""Target of runs whose model two processes walk, in parts that share no value."""
PART = 45
"""So many ops are in each of the two parts."""

MODEL = """
import os, pathlib, time

import jax.numpy as jnp

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model


@model(name="killed", family="toy")
def build(dtype):
    pathlib.Path(os.environ["NOTES"], f"exporter-{os.getpid()}").touch()
    time.sleep(0.5)

    def run(arguments):
        x = arguments["x"]
        for n in range(6):
            x = jnp.tanh(x @ jnp.ones((16 + n, 17 + n), x.dtype)) + n
        return x

    return Built(run, (ArgSpec("x", (4, 16), dtype, "normal:1", "input"),))
"""
BACKEND = """
import os, pathlib, time

from opscope import Backend, Stage, StageError, Target


class Steady(Backend):
    name = "steady"
    stages = (Stage.COMPILE, Stage.RUN)

    def target(self, options):
        return Target(card_type="none", float_format=None, math_fidelity="exact")

    def fingerprint(self):
        return "1"

    def available(self):
        return None

    def climb(self, stage, job):
        pathlib.Path(os.environ["NOTES"], f"lane-{os.getpid()}").touch()
        time.sleep(0.03)
        if b"tanh" in job.module:
            raise StageError("no room", "the whole story")
"""
STEADY = (
    "op_id",
    "op_name",
    "status",
    "stage_reached",
    "failed_stage",
    "error_message",
    "error_signature",
    "crash_kind",
    "pcc",
    "z_max",
    "results",
    "expected",
    "flaky",
    "stability",
    "left_behind",
    "uses",
    "locations",
    "models",
    "provenance",
)
"""Fields of a record that are equal in equal runs."""


@dataclass(frozen=True)
class Kill:
    """Who is killed, by what, in which kind of run."""

    target: str
    number: signal.Signals
    lanes: int
    cold: bool

    @property
    def text(self) -> str:
        """The kill in a few words."""
        return f"{self.number.name} of {self.target}, -n {self.lanes}, {'cold' if self.cold else 'warm'}"


def kills(count: int, seed: int) -> list[Kill]:
    """So many kills: every kind once before any comes again, in an order that the seed draws."""
    cold = [Kill(target, n, lanes, True) for target, n, lanes in itertools.product(COLD, SIGNALS, (1, 2))]
    warm = [Kill(target, n, lanes, False) for target, n, lanes in itertools.product(WARM, SIGNALS, (1, 2))]
    forks = [Kill(FORK, n, 2, True) for n in SIGNALS]
    draw, drawn = random.Random(seed), []
    while len(drawn) < count:
        kinds = [*cold, *warm, *forks]
        draw.shuffle(kinds)
        drawn += kinds
    return drawn[:count]


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """Kills one process of each of `count` runs, and goes on with the run."""
    (folder / "m.py").write_text(MODEL, encoding="utf-8")
    (folder / "steady.py").write_text(BACKEND, encoding="utf-8")
    (folder / "parts.mlir").write_text(module([f"1x{n + 1}" for n in range(2 * PART)], apart=True), encoding="utf-8")
    warm, draw = folder / "warm", random.Random(seed)
    right = {target: undisturbed(Run(folder, folder / f"undisturbed-{target}", warm, target)) for target in ("", FORK)}
    began = time.monotonic()
    Run(folder, folder / "again", warm).finished(())
    seconds = time.monotonic() - began
    for number, kill in enumerate(kills(count, seed)):
        cache = folder / f"cache{number}" if kill.cold else warm
        run = Run(folder, folder / f"run{number}", cache, kill.target)
        moment, expected = draw.random(), right[FORK if kill.target == FORK else ""]
        yield Attempt(kill.target, kill.text, *run.killed_and_resumed(kill, moment, seconds, expected))
        if kill.cold:
            shutil.rmtree(cache, ignore_errors=True)


def undisturbed(run: Run) -> dict[str, Any]:
    """What counts of a run that nobody kills. Raises RuntimeError if it does not end as it should."""
    code, output = run.finished(())
    records = run.records()
    if code != int(not run.in_parts) or records.get("outcome") != "complete":
        raise RuntimeError(f"the undisturbed run ended with {code}:\n{output}")
    return records


class Run:
    """A run in a folder of its own, with its cache."""

    def __init__(self, folder: Path, run_dir: Path, cache: Path, target: str = "") -> None:
        self.in_parts = target == FORK
        self._folder, self._run_dir = folder, run_dir
        self._notes = Path(f"{run_dir}-notes")
        self._notes.mkdir()
        self._environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(cache), "NOTES": str(self._notes)}

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            sweep_command("--no-cache", *words),
            cwd=self._folder,
            env=self._environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _new(self) -> tuple[str, ...]:
        return (
            "--model",
            "parts.mlir" if self.in_parts else "m.py",
            "--backend",
            "steady.py",
            "--run-dir",
            str(self._run_dir),
        )

    def finished(self, more: tuple[str, ...]) -> tuple[int | None, str]:
        """Runs to the end: begins, or goes on where there is a run. Exit code (None: too late) and output."""
        there = (self._run_dir / "run.json").is_file()
        words = ("--resume", str(self._run_dir)) if there else self._new()
        child = self._start(*words, *more)
        try:
            output, _ = child.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return None, child.communicate()[0]
        return child.returncode, output

    def records(self) -> dict[str, Any]:
        """What counts of the run's records, and of its models."""
        command = [sys.executable, "-P", "-m", "opscope.harness.cli.main", "show", str(self._run_dir), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=self._environment)
        if done.returncode:
            return {"refused": done.stderr}
        return steady(json.loads(done.stdout))

    def killed_and_resumed(
        self, kill: Kill, moment: float, seconds: float, right: dict[str, Any]
    ) -> tuple[Ending, str]:
        """What comes of a run of which a process is killed at a moment (0 to 1) of its time."""
        more = ("-n", str(kill.lanes))
        child = self._start(*self._new(), *more)
        hit = self._kill(child, kill, moment, seconds)
        try:
            first, _ = child.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return "stuck", f"{kill.text}\n{child.communicate()[0]}"
        if left := _left(child.pid):
            return "stuck", f"{kill.text}: still there after {GONE:g} s: {left}"
        code, second = self.finished(more)
        shown = f"{kill.text} at {moment:.2f}, hit {hit}\n{first}\n--- resumed: exit {code}\n{second}"
        if code is None:
            return "stuck", shown
        if any(word in output for output in (first, second) for word in UNEXPLAINED):
            return "traceback", shown
        ended = self.records()
        if ended != right:
            parts = [f"{key}: {ended.get(key)} is not {right[key]}" for key in right if ended.get(key) != right[key]]
            return "silent", f"{shown}\n{parts}"
        return ("noticed" if hit else "no effect"), ""

    def _kill(self, child: subprocess.Popen[str], kill: Kill, moment: float, seconds: float) -> int | None:
        """Kills the target, once it is there, at the moment; None if the run has ended before."""
        if kill.target in ("controller", "server"):
            time.sleep(moment * seconds)
        while child.poll() is None:
            pid = self._target(child.pid, kill.target)
            if pid is not None:
                if kill.target not in ("controller", "server"):
                    time.sleep(moment / 2)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, kill.number)
                    return pid
            time.sleep(0.01)
        return None

    def _target(self, controller: int, target: str) -> int | None:
        """The process to kill; None if there is none (yet)."""
        if target == "controller":
            return controller
        tree = descendants(controller)
        if target == "server":
            started = (pid for pid, parent in tree.items() if parent == controller and "fork_server" in words_of(pid))
            return next(started, None)
        if target == FORK:
            walkers = {pid for pid, parent in tree.items() if is_child(pid, parent)}
            return next((pid for pid, parent in tree.items() if pid in walkers and parent in walkers), None)
        noted = {int(path.name.partition("-")[2]): path.name.partition("-")[0] for path in self._notes.iterdir()}
        if target in ("lane", "exporter"):
            return next((pid for pid, role in noted.items() if role == target and pid in tree), None)
        exporters = "exporter" in noted.values()
        forks = (pid for pid, parent in tree.items() if pid not in noted and is_child(pid, parent))
        return next(forks, None) if exporters else None


def steady(page: dict[str, Any]) -> dict[str, Any]:
    """What is equal in equal runs, of what `opscope show --json` prints of one."""
    tests = {test["op_id"]: {name: test.get(name) for name in STEADY} for test in page["op_tests"]}
    return {"outcome": page["run"]["outcome"], "ledger": page["ledger"], "models": page["models"], "ops": tests}


def descendants(pid: int) -> dict[int, int]:
    """The processes below `pid`, each with its parent."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    below: dict[int, int] = {}
    generation = {pid}
    while generation:
        generation = {child for child, parent in parents.items() if parent in generation and child not in below}
        below |= {child: parents[child] for child in generation}
    return below


def words_of(pid: int) -> str:
    """The command line of a process; empty once it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def is_child(pid: int, parent: int) -> bool:
    """Whether a process runs a child's function: it is a fork of a server, or an interpreter of its own."""
    words = words_of(pid)
    return "base.children" in words and ("fork_server" not in words or "fork_server" in words_of(parent))


def _left(session: int) -> list[str]:
    """The processes of an ended run that have not ended with it in time."""
    until = time.monotonic() + GONE
    while left := [words_of(pid) for pid in _of_session(session)]:
        if time.monotonic() > until:
            return left
        time.sleep(0.1)
    return []


def _of_session(session: int) -> list[int]:
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            state, _, _, of_process = stat.read_text().rpartition(")")[2].split()[:4]
            if int(of_process) == session and state != "Z":
                pids.append(int(stat.parent.name))
    return pids
