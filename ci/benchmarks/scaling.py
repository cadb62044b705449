"""How a sweep scales with its workers, by measurement: a real sweep of sleeping models on 4, 16 and 64 workers.

    python -m ci.benchmarks.scaling --workers 4 16 64 --over lanes dask --seconds 600

`durations.json` has the times of a real sweep (`record_durations.py`). Each model becomes a small file of StableHLO;
pytest, the engine or Dask, the children that prepare, lanes, records and journal are real, and what takes time in a
real sweep sleeps for that time (`sleeping/sitecustomize.py`). All times are multiplied so that the least possible time
of a sweep is `--seconds`, and one op sleeps for `--group` recorded ones: 64 workers that start, collect and record on
two cores must not be what is measured. Prints a table; `--json FILE` keeps the figures.

No sweep is faster than all work divided by the workers, nor than its longest chain: a model's export and split, its
goldens up to an op, and that op. The table compares with the larger of both.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from ci.bench import cluster
from ci.benchmarks import replay

HERE = Path(__file__).resolve().parent
DURATIONS = HERE / "durations.json"
SLEEPING = HERE / "sleeping"
SLEEPS = "OPSCOPE_BENCHMARK_SLEEPS"
DEVICES = 16
"""Lanes of one Dask worker: a machine with so many cores."""
WIDTH = 128
"""Ops have the shapes 1x1 to 128xN, so that their shape names them."""
LOOK = 2.0
"""Seconds between two looks at the memory of all processes."""


@dataclass(frozen=True)
class Model:
    """The seconds of one model."""

    name: str
    before: float
    """Export and split."""
    golden: float
    """The whole walk."""
    ops: tuple[float, ...]
    split: float = 0.0
    """What of `before` is the split, which a sweep may repeat."""
    apart: bool = False
    """Whether its ops share no value, so that several processes make its goldens: a suite's do not."""

    @property
    def work(self) -> float:
        """All seconds."""
        return self.before + self.golden + sum(self.ops)

    def chain(self) -> tuple[float, int]:
        """The longest chain, and the number of the op at its end: an op can run once its golden is there."""
        each = self.golden / len(self.ops)
        return max(
            (self.before + each * (1 if self.apart else number + 1) + seconds, number)
            for number, seconds in enumerate(self.ops)
        )

    def grouped(self, size: int) -> Model:
        """The same model with fewer ops, each of which takes as long as `size` of these, as they follow one another.

        One whose ops share no value keeps them: how many processes make its goldens follows from their number.
        """
        if self.apart:
            return self
        ops = tuple(sum(self.ops[first : first + size]) for first in range(0, len(self.ops), size))
        return replace(self, ops=ops)

    def times(self, factor: float) -> Model:
        """The same model, slower."""
        ops = tuple(factor * seconds for seconds in self.ops)
        return Model(self.name, factor * self.before, factor * self.golden, ops, factor * self.split, self.apart)


def read(path: Path, most: int | None = None, group: int = 1) -> list[Model]:
    """The models of a file of `record_durations.py`, sorted by name as a sweep has them.

    A model's times are shortened to its processor time, where other programs had the processor meanwhile. A model
    without an op of its own gets one that takes no time.
    """
    rows = json.loads(path.read_text())["models"]
    return [_model(name.replace(":", "_"), rows[name]).grouped(group) for name in sorted(rows)][:most]


def _model(name: str, row: Mapping[str, Any]) -> Model:
    clock = row["export"] + row["split"] + row["golden"] + sum(row["ops"])
    before, ops, apart = row["export"] + row["split"], tuple(row["ops"]) or (0.0,), name.startswith("suite_")
    model = Model(name, before, row["golden"], ops, row["split"], apart)
    return model.times(min(1.0, row.get("cpu", clock) / clock))


@dataclass(frozen=True)
class Bound:
    """The least possible time of a sweep, and why."""

    work: float
    chain: float
    model: str
    op: int

    def seconds(self, workers: int) -> float:
        """With so many workers."""
        return max(self.work / workers, self.chain)

    @property
    def saturation(self) -> float:
        """The number of workers above which more of them do not help."""
        return self.work / self.chain


def bound(models: Sequence[Model]) -> Bound:
    """The bound of a sweep of these models."""
    (chain, op), name = max((model.chain(), model.name) for model in models)
    return Bound(sum(model.work for model in models), chain, name, op)


def write(models: Sequence[Model], folder: Path) -> Path:
    """Writes a file for each model, and the table of sleeps. Returns the table's path."""
    numbers = itertools.count()
    before: dict[str, tuple[float, float]] = {}
    ops: dict[str, tuple[float, float]] = {}
    for model in models:
        shapes = [f"{1 + n % WIDTH}x{1 + n // WIDTH}" for n, _ in zip(numbers, model.ops, strict=False)]
        each = model.golden / len(shapes)
        ops |= {shape: (each, seconds) for shape, seconds in zip(shapes, model.ops, strict=True)}
        before[model.name] = model.before, model.split
        (folder / f"{model.name}.mlir").write_text(module(shapes, model.apart))
    table = folder / "sleeps.json"
    table.write_text(json.dumps({"models": before, "ops": ops}))
    Path(f"{table}.log").mkdir()
    return table


def module(shapes: Sequence[str], apart: bool) -> str:
    """A module with an op of each shape. They read one value in common, unless they are to be `apart`."""
    arguments = ", ".join(["%p: tensor<i1>", *(f"%a{n}: tensor<{shape}xi8>" for n, shape in enumerate(shapes))])
    types = ", ".join(f"tensor<{shape}xi8>" for shape in shapes)
    body = "\n".join(
        f"  %r{n} = stablehlo.negate %a{n} : tensor<{shape}xi8>"
        if apart
        else f"  %r{n} = stablehlo.select %p, %a{n}, %a{n} : tensor<i1>, tensor<{shape}xi8>"
        for n, shape in enumerate(shapes)
    )
    results = ", ".join(f"%r{n}" for n in range(len(shapes)))
    return f"func.func @main({arguments}) -> ({types}) {{\n{body}\n  return {results} : {types}\n}}\n"


@dataclass(frozen=True)
class Sleep:
    """One sleep: its kind, of what, and when."""

    kind: str
    what: str
    begin: float
    end: float


def sleeps(table: Path) -> list[Sleep]:
    """All sleeps of a sweep, in the order of their beginning."""
    lines = [line.split() for log in Path(f"{table}.log").iterdir() for line in log.read_text().splitlines()]
    sleeps = [Sleep(kind, what, float(begin), float(end)) for kind, what, begin, end in lines]
    return sorted(sleeps, key=lambda each: each.begin)


def most_at_once(slept: Sequence[Sleep]) -> int:
    """How many slept at the same time."""
    changes = sorted([(each.begin, 1) for each in slept] + [(each.end, -1) for each in slept])
    return max(itertools.accumulate((change for _, change in changes)), default=0)


@dataclass(frozen=True)
class Figures:
    """The figures of one sweep. Times in seconds."""

    over: str
    workers: int
    factor: float
    """By which the recorded times were multiplied."""
    least: float
    """The bound with so many workers."""
    seconds: float
    """The whole command."""
    asleep: float
    """From the first sleep to the end of the last: without start, report and end."""
    utilisation: float
    """All work divided by the workers and the whole command."""
    possible: float
    """The least time divided by the whole command."""
    first_op: float
    """When the first op began, from the first sleep on, as a part of `asleep`."""
    most_at_once: int
    cpu_seconds: float
    """Processor time of the harness."""
    bytes: int
    """Most memory of all processes; what forks share counts once."""
    exit: int


def sweep(models: Sequence[Model], over: str, workers: int, seconds: float) -> Figures:
    """Runs one sweep. Raises SystemExit unless each op and each model slept exactly once."""
    factor = seconds / bound(models).seconds(workers)
    slow = [model.times(factor) for model in models]
    least = bound(slow).seconds(workers)
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder, cache = Path(scratch) / "here", Path(scratch) / "cache"
        folder.mkdir()
        table = write(slow, folder)
        paths = [str(SLEEPING), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "OPSCOPE_CACHE_DIR": str(cache),
            SLEEPS: str(table),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        processes = []
        spread = ["-n", str(workers)]
        if over == "dask":
            machines = max(1, workers // DEVICES)
            address, processes = stack.enter_context(cluster(machines, workers // machines, environment))
            spread = ["--cluster", address]
        command = [sys.executable, "-P", "-m", "pytest", "-p", "no:benchmark", "-p", "no:randomly", "-q"]
        command += ["--model", str(folder / "*.mlir"), "--op-by-op", "--backend", "null", "--no-cache", "--no-report"]
        command += spread
        with (Path(scratch) / "output").open("w+") as output:
            begun = time.monotonic()
            child = psutil.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
            most, cpu = watch([child, *map(psutil.Process, processes)])
            took = time.monotonic() - begun
            output.seek(0)
            text = output.read()
        slept = sleeps(table)
    _check(slow, slept, text)
    first, last = slept[0].begin, max(each.end for each in slept)
    first_op = min(each.begin for each in slept if each.kind == "op")
    return Figures(
        over=over,
        workers=workers,
        factor=round(factor, 3),
        least=round(least, 1),
        seconds=round(took, 1),
        asleep=round(last - first, 1),
        utilisation=round(bound(slow).work / workers / took, 4),
        possible=round(least / took, 4),
        first_op=round((first_op - first) / (last - first), 4),
        most_at_once=most_at_once(slept),
        cpu_seconds=round(cpu, 1),
        bytes=most,
        exit=child.returncode,
    )


def _check(models: Sequence[Model], slept: Sequence[Sleep], text: str) -> None:
    """Raises SystemExit unless each model was prepared once, and each op had one golden and one run."""
    ops = sum(len(model.ops) for model in models)
    expected = {"prepare": len(models), "golden": ops, "op": ops}
    for kind, count in expected.items():
        got = [each.what for each in slept if each.kind == kind]
        if len(got) != count or len(set(got)) != count:
            raise SystemExit(
                f"{kind}: expected {count} different sleeps, got {len(got)} ({len(set(got))} different)\n{text[-3000:]}"
            )


def watch(roots: list[psutil.Process]) -> tuple[int, float]:
    """Waits for the first process to end; the most bytes that all of them with their children held at once, and their
    processor time as last seen."""
    most, seconds = 0, {}
    while True:
        resident = 0
        for process in [each for root in roots for each in _family(root)]:
            with contextlib.suppress(psutil.Error, OSError):
                resident += process.memory_full_info().pss
                times = process.cpu_times()
                seconds[process.pid, process.create_time()] = times.user + times.system
        most = max(most, resident)
        with contextlib.suppress(psutil.TimeoutExpired):
            roots[0].wait(LOOK)
            return most, sum(seconds.values())


def _family(process: psutil.Process) -> Iterator[psutil.Process]:
    yield process
    with contextlib.suppress(psutil.Error):
        yield from process.children(recursive=True)


HEADS = (
    "over",
    "workers",
    "least possible",
    "took",
    "of what is possible",
    "utilisation",
    "first op after",
    "most at once",
    "sleeps x",
    "harness, CPU",
    "memory",
)


def table_of(figures: Sequence[Figures]) -> str:
    """The figures as a Markdown table."""
    rows = [
        (
            f"{each.over}",
            f"{each.workers}",
            f"{each.least:.0f} s",
            f"{each.seconds:.0f} s",
            f"{each.possible:.1%}",
            f"{each.utilisation:.1%}",
            f"{each.first_op:.0%}",
            f"{each.most_at_once}",
            f"{each.factor:.1f}",
            f"{each.cpu_seconds:.0f} s",
            f"{each.bytes / 2**30:.1f} GiB",
        )
        for each in figures
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in (HEADS, ["---"] * len(HEADS), *rows))


def summary(models: Sequence[Model]) -> str:
    """One sentence about work and longest chain, in recorded time."""
    limit, ops = bound(models), sum(len(model.ops) for model in models)
    before = sum(model.before + model.golden for model in models)
    return (
        f"{len(models)} models, {ops:,} ops: {limit.work:.0f} s of work, {before:.0f} s of them preparation. Longest "
        f"chain: {limit.model}, its export, split, goldens up to op {limit.op + 1} and that op, {limit.chain:.1f} s. "
        f"More than {limit.saturation:.0f} workers do not help."
    )


def replayed(models: Sequence[Model], workers: Sequence[int]) -> str:
    """A Markdown table: what a sweep could reach at most, in parts of what its longest chain and its work allow."""
    limit = bound(models)
    heads = (
        "workers",
        "least possible",
        "ops after all models, models one by one",
        "ops after all models, models side by side",
        "ops as goldens come",
    )
    rows = []
    for count in workers:
        least = limit.seconds(count)
        times = (
            replay.with_phases(models, count, 1),
            replay.with_phases(models, count, count),
            replay.without_phases(models, count),
        )
        rows.append((f"{count}", f"{least:.0f} s", *(f"{took:.0f} s, {least / took:.0%}" for took in times)))
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))


def main(arguments: list[str] | None = None) -> int:
    """Runs the sweeps and prints their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--over", nargs="*", choices=["lanes", "dask"], default=["lanes", "dask"])
    parser.add_argument("--seconds", type=float, default=600.0, help="the least possible time of each sweep")
    parser.add_argument("--models", type=int, help="take only the first so many models")
    parser.add_argument("--group", type=int, default=8, help="recorded ops that one sleeping op stands for")
    parser.add_argument("--durations", type=Path, default=DURATIONS)
    parser.add_argument("--json", type=Path, help="append the figures to this file, one line a sweep")
    options = parser.parse_args(arguments)
    recorded = read(options.durations, options.models)
    print(f"{summary(recorded)}\n\n{replayed(recorded, options.workers)}\n", flush=True)
    models = read(options.durations, options.models, options.group)
    figures: list[Figures] = []
    for over, workers in itertools.product(options.over, options.workers):
        figures.append(sweep(models, over, workers, options.seconds))
        row: dict[str, Any] = asdict(figures[-1])
        print(json.dumps(row), file=sys.stderr, flush=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(row) + "\n")
    if figures:
        print(table_of(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
