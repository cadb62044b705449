"""Records how long each model's preparation and each of its ops take: `python -m ci.benchmarks.record_durations`.

Every model is prepared and swept by itself, on empty caches, with one lane. `cpu` is the processor time of all that:
what is above it in the clock's time is another program's, or a wait for the disk. The times go to `durations.json`,
model by model, so that a stopped recording goes on. `ci/benchmarks/scaling.py` makes sleeping models of them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opscope.harness.cache.claims import Claims
from opscope.harness.engine import model_jobs
from opscope.harness.prepare.preparation import Preparation, tasks
from opscope.harness.record import store
from opscope.harness.scale import costs

FILE = Path(__file__).with_name("durations.json")


@dataclass(frozen=True)
class Recorded:
    """Seconds of one model."""

    export: float
    split: float
    golden: float
    """The walk over all of its ops, with the start of XLA."""
    ops: list[float]
    """Each of its unique ops that no model before it has, whole: compile, run, compare."""


def record(model: str, cache: Path, scratch: Path) -> Recorded | None:
    """Prepares one model, then runs its ops; None if it was not prepared, for which a line says why."""
    marks: dict[str, float] = {}

    def mark(event: dict[str, Any]) -> None:
        if event["event"] == "stage":
            marks.setdefault(f"{event['stage']} {'ends' if event['done'] else 'begins'}", time.monotonic())
            marks[f"last {event['stage']}"] = time.monotonic()

    with Claims() as claims:
        header, _ = model_jobs.prepare(Preparation((model,), cache_dir=str(cache)), mark, model_jobs.Means(claims))
    if header.failed:
        print(f"{model}: {header.failed[0].status.value} {header.failed[0].error}", file=sys.stderr, flush=True)
        return None
    run = scratch / f"run-{model}"
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:benchmark", "--model", model, "--op-by-op", "-q"]
    command += ["--no-report", "--run-dir", str(run)]
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(cache)}
    subprocess.run(command, cwd=scratch, env=environment, stdout=subprocess.DEVNULL, check=False)
    tests = [test for test in store.load_run(run).tests if not test.cached_from]
    return Recorded(
        export=round(marks["export ends"] - marks["export begins"], 3),
        split=round(marks["split ends"] - marks["split begins"], 3),
        golden=round(marks["last golden"] - marks["split ends"], 3),
        ops=[round(seconds, 4) for seconds in costs.of_tests(tests).values()],
    )


def main(arguments: list[str] | None = None) -> int:
    """Records the models that the file lacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", default=["all"])
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--into", type=Path, help="record one model, with its caches in this folder, and print it")
    options = parser.parse_args(arguments)
    if options.into:
        recorded = record(options.models[0], options.into / "cache", options.into)
        print(json.dumps(asdict(recorded) if recorded else None))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        cache = scratch / "cache"
        names = [
            task.name for task in tasks(Preparation(tuple(options.models), cache_dir=str(cache))) if not task.missing
        ]
        table = json.loads(options.file.read_text()) if options.file.exists() else {"models": {}}
        for name in names:
            if name in table["models"]:
                continue
            before = _cpu_seconds()
            # In a process of its own, so that the time of all its children counts once it has ended.
            command = [sys.executable, "-P", __file__, "--models", name, "--into", str(scratch)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            recorded = json.loads(done.stdout.splitlines()[-1])
            if recorded is None:
                continue
            table["models"][name] = {**recorded, "cpu": round(_cpu_seconds() - before, 1)}
            options.file.write_text(json.dumps(table) + "\n")
            print(
                f"{name}: export {recorded['export']:.1f} s, split {recorded['split']:.1f} s, golden "
                f"{recorded['golden']:.1f} s, {len(recorded['ops'])} ops {sum(recorded['ops']):.1f} s",
                flush=True,
            )
    return 0


def _cpu_seconds() -> float:
    """Processor time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
