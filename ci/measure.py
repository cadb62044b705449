"""The numbers of docs/measurements.yaml at full size: `make measure`. Starts command lines only; prints one table.

Each figure comes from what a user's command prints or stores. The caches are in a separate folder, so that "caches
empty" is true.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import guides
import measure_compiler
import measure_cycles
import measure_dashboards
import measure_database
import measure_nightly
import measure_nights
from bench import BIN, MODELS, ROOT, Bench, cluster, table, tool
from figures import Figure, print_figures

LIMITS = {"test_split_chain[4000]": 0.5, "test_compile_one_op[0]": 0.015, "test_compile_one_op[2]": 0.015}
"""Benchmark -> seconds that its median round may take."""
GROWTH = {
    "splitting 64,000 ops against 4,000": ("test_split_chain[64000]", "test_split_chain[4000]"),
    "compiling 20,000 ops against 1,250, level 0": ("test_compile_chain[20000-0]", "test_compile_chain[1250-0]"),
    "compiling 20,000 ops against 1,250, level 2": ("test_compile_chain[20000-2]", "test_compile_chain[1250-2]"),
}
"""What is compared -> the benchmark with 16 times the ops, and the smaller one."""
MOST_GROWTH = 24
"""Factor that 16 times the ops may take in time: linear growth, plus half as much again for memory effects."""


def _op_milliseconds(run: dict) -> list[float]:
    return [1000 * sum(stage["seconds"] for stage in op["stages"]) for op in run["op_tests"]]


def sweeps(bench: Bench) -> Iterator[Figure]:
    """ResNet-50 with empty and with warm caches, then all models in both types."""
    cold, _ = bench.sweep("resnet50")
    yield Figure("resnet50 float32, caches empty: whole command", f"{cold:.1f} s", "<= 30 s", cold <= 30)
    warm, run = bench.sweep("resnet50", "--no-cache")
    unique, uses = len(run["op_tests"]), sum(run["ledger"]["uses"].values())
    yield Figure(
        f"resnet50 float32, caches warm, every op run ({unique} unique, {uses} uses)",
        f"{warm:.1f} s",
        "<= 10 s",
        warm <= 10,
    )
    same, run = bench.sweep("resnet50")
    kept = sum(bool(op["cached_from"]) for op in run["op_tests"])
    yield Figure(f"resnet50 float32, nothing changed ({kept} verdicts kept)", f"{same:.1f} s", "<= 3 s", same <= 3)
    for model in MODELS:
        for dtype in ("float32", "bfloat16"):
            seconds, run = bench.sweep(model, "--dtype", dtype, "--no-cache")
            status = run["ledger"]["by_status"]
            counts = ", ".join(f"{count} {name}" for name, count in status.items() if count)
            reached = sum(op["status"] in {"success", "wrong_result", "golden_in_doubt"} for op in run["op_tests"])
            total = len(run["op_tests"])
            yield Figure(
                f"{model} {dtype}: ops that reach compare",
                f"{reached}/{total} ({counts}; {seconds:.1f} s)",
                "all",
                reached == total,
            )
            if model == "bert_base":
                median = statistics.median(_op_milliseconds(run))
                yield Figure(f"bert_base {dtype}: median time per op", f"{median:.1f} ms", "<= 60 ms", median <= 60)


def benchmarks(scratch: Path) -> Iterator[Figure]:
    """Every benchmark's best and median round, with the limit if it has one, and the growth with 16 times the ops."""
    stored = scratch / "benchmarks.json"
    files = sorted(str(path) for path in (ROOT / "ci" / "benchmarks").glob("bench_*.py"))
    done = subprocess.run([BIN / "pytest", *files, "-q", "-p", "no:randomly", f"--benchmark-json={stored}"], cwd=ROOT)
    yield Figure("benchmarks", f"exit {done.returncode}", "exit 0", done.returncode == 0)
    stats_of_benchmarks = {row["name"]: row["stats"] for row in json.loads(stored.read_text())["benchmarks"]}
    for name, stats in stats_of_benchmarks.items():
        limit = LIMITS.get(name)
        met = limit is None or stats["median"] <= limit
        times = f"{stats['min']:.4f} s, median {stats['median']:.4f} s"
        yield Figure(f"benchmark {name}", times, f"<= {limit} s" if limit else "", met)
    for what, (large, small) in GROWTH.items():
        growth = stats_of_benchmarks[large]["min"] / stats_of_benchmarks[small]["min"]
        yield Figure(f"{what}: time", f"{growth:.1f} x", "16 x is linear", growth <= MOST_GROWTH)


def plans() -> Iterator[Figure]:
    """The 24 plans, and whole models placed, run and compared."""
    slowest = max(table("ci.benchmarks.bench_planner", "resnet50", "bert_large"), key=lambda r: float(r["planning s"]))
    name = f"{slowest['model']} on {slowest['arch']} by {slowest['policy']}"
    seconds = float(slowest["planning s"])
    yield Figure(f"slowest of 24 plans: {name}", f"{seconds:.1f} s", "<= 60 s", seconds <= 60)
    for row in table("ci.benchmarks.bench_placed", "--acc", "Float32", "--acc", "Float16_b"):
        plan = f"{row['model']} placed, Dst {row['Dst']}"
        same, pccs = row["placed = unplaced"], row["PCC against TTNN"]
        yield Figure(f"{plan}: the bits of the same graph unplaced", same, "yes", same == "yes")
        least = min(float(value) for value in pccs.split())
        yield Figure(f"{plan}: PCC against the TTNN route", pccs, ">= 0.999", least >= 0.999)


def faults(scratch: Path) -> Figure:
    """500 faults of all kinds in one sweep of 1,000 ops."""
    command = [sys.executable, ROOT / "ci" / "faults.py", "--faults", "500", "--workers", "2"]
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(scratch / "cache")}
    done = subprocess.run(command, env=environment, text=True, capture_output=True)
    lines = done.stdout.strip().splitlines()
    target = "500 right labels, 0 other verdicts changed, 0 records lost"
    return Figure("injected faults", lines[-1] if lines else f"exit {done.returncode}", target, done.returncode == 0)


def mutation(count: int = 300, seed: int = 2317) -> Figure:
    """Mutants of our own source, each tried by the quick tests that run its statement."""
    output, code = tool("ci.mutation", "--count", str(count), "--seed", str(seed))
    lines = [line for line in output.splitlines() if " mutants noticed (" in line]
    value = lines[-1] if lines else f"exit {code}"
    return Figure(f"mutants of our own source, seed {seed}", value, ">= 85 %", code == 0)


def attacks() -> Iterator[Figure]:
    """Each attack of ci/attacks at its full size: attempts, and how many ended in a defect."""
    for name in tool("ci.attacks", "--list")[0].split():
        output, code = tool("ci.attacks", name)
        summary = " ".join(output.partition(f"{name}:")[2].split())[:60]
        yield Figure(f"attack {name}", summary, "no defect", code == 0)


def verdicts(seed: int = 1) -> Iterator[Figure]:
    """Seeded faults on results of real ops, and kernels that are wrong in one place: how many a verdict refuses."""
    for name, faults, kernels, target in (
        ("faults on results", 600, 0, ">= 98 % of each class"),
        ("kernels that are wrong in one place", 0, 100, "all"),
    ):
        words = ("--faults", str(faults), "--kernels", str(kernels), "--seed", str(seed))
        output, code = tool("ci.benchmarks.verdicts", *words)
        rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in output.splitlines()[2:]]
        caught, real = sum(int(row[5]) for row in rows), sum(int(row[4]) for row in rows)
        value = f"{caught} of {real} caught with their place, {sum(int(row[2]) for row in rows)} undetectable"
        yield Figure(f"{name}, seed {seed}", value, target, code == 0)


def processors() -> Figure:
    """Verdicts on the same bits with other kernels of OpenBLAS and fewer instructions in NumPy."""
    output, code = tool("ci.processors")
    counts = [int(line.rpartition(": ")[2].split()[0]) for line in output.splitlines() if " verdicts differ; " in line]
    return Figure(f"verdicts that differ on {len(counts) - 1} other processors", str(sum(counts)), "0", code == 0)


def scales() -> Iterator[Figure]:
    """What a cold walk pays for the scales of verdicts."""
    output, _ = tool("ci.benchmarks.scales", check=True)
    for (model, limit), line in zip({"products": 100, "resnet50": 10}.items(), output.splitlines(), strict=True):
        more = float(line.rpartition(": ")[2].partition("%")[0])
        yield Figure(f"scales in a cold walk of {model}", line.partition(": ")[2], f"<= {limit} %", more <= limit)


def alarms() -> Iterator[Figure]:
    """What the boards may honestly compute and a verdict refuses: the five models in all formats and fidelities."""
    devices = ("--boards", "n150", "e150", "p150", "--levels", "0", "2")
    fidelities = ("--fidelities", "HiFi4", "HiFi3", "HiFi2", "LoFi")
    for name, options in (("float32, Bfp8_b", "--formats f32 Bfp8_b"), ("bfloat16", "--dtype bfloat16")):
        output, code = tool("ci.benchmarks.false_alarms", *devices, *fidelities, "--models", *MODELS, *options.split())
        wrong = sum(line.startswith("  ") for line in output.splitlines())
        yield Figure(f"false alarms, five models, {name}", str(wrong), "0", code == 0)


def overhead() -> Iterator[Figure]:
    """Time and memory that the harness itself takes for 20,000 synthetic ops with 200,000 uses."""
    ops, uses = 20_000, 200_000
    output, _ = tool("ci.benchmarks.overhead", "--ops", str(ops), "--uses", str(uses), check=True)
    measured = json.loads(output)
    limit, sweep_name = 3e-3 * ops + 30e-6 * uses, f"{ops:,} synthetic ops, {uses:,} uses, backend null"
    # The sum over its own processes, so that other work on the machine does not count.
    seconds, size = measured["cpu_seconds"], measured["bytes"] / 2**30
    value = f"{seconds:.0f} s, {measured['seconds']:.0f} s by the clock"
    yield Figure(f"{sweep_name}: processor time of the whole command", value, f"<= {limit:.0f} s", seconds <= limit)
    yield Figure(f"{sweep_name}: memory of all processes", f"{size:.2f} GiB", "< 2 GB", measured["bytes"] < 2e9)


def scale(bench: Bench) -> Iterator[Figure]:
    """A cluster of two workers against two pytest workers: the whole command, running every op of the five models."""
    options = (MODELS[0], *(word for model in MODELS[1:] for word in ("--model", model)), "--no-cache", "--no-report")
    bench.sweep(*options)
    local, _ = bench.sweep(*options, "-n", "2")
    with cluster(2) as (address, _):
        bench.sweep("mnist_mlp", "--no-cache", "--no-report", "--cluster", address)
        clustered, _ = bench.sweep(*options, "--cluster", address)
    value = f"{clustered:.1f} s against {local:.1f} s"
    yield Figure("the five models, Dask with 2 workers against -n 2", value, "<= 15 % more", clustered <= 1.15 * local)


def hosts() -> Iterator[Figure]:
    """A cluster on three hosts without a common file system: undisturbed, and where one is lost in the middle."""
    output, code = tool("ci.three_hosts")
    name = "three hosts against one without a cluster"
    if output.startswith("skipped: "):
        yield Figure(name, output.strip(), "records, goldens equal", code == 0)
        return
    heads, _, _, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in output.splitlines())
    for row in (dict(zip(heads, cells, strict=True)) for cells in rows):
        met = row["records"] == row["goldens"] == "equal"
        value = f"{row['ops']} ops, records {row['records']}, goldens {row['goldens']}, {row['seconds']} s"
        yield Figure(f"{name}: {row['case']}", value, "records, goldens equal", met)


def scaling() -> Iterator[Figure]:
    """A sweep of sleeping models on 64 workers against the least time that its work and its longest chain allow."""
    output, _ = tool("ci.benchmarks.scaling", "--workers", "4", "16", "64", check=True)
    for line in output.rpartition("\n\n")[2].splitlines()[2:]:
        over, workers, least, took, possible, *_ = (cell.strip() for cell in line.strip("| ").split("|"))
        met = float(possible.rstrip("%")) >= 90
        name = f"sleeping models, {over}, {workers} workers: whole command against the least possible"
        yield Figure(name, f"{took} of {least}: {possible}", ">= 90 %", met)


def exports() -> Figure:
    """Exports of the PyTorch models alone, and as forks of a process that has imported PyTorch."""
    output, code = tool("ci.benchmarks.exports")
    alone, forks = (line.split("|")[3].strip() for line in output.splitlines()[2:4])
    return Figure("exports of PyTorch models, processor time", f"{alone}; as forks {forks}", "equal modules", code == 0)


def walks(scratch: Path) -> Iterator[Figure]:
    """The guides and the README, walked from a wheel in an empty folder."""
    (scratch / "guides").mkdir()
    for name, problem, seconds in guides.walks(scratch / "guides"):
        print(problem)
        value = "goes otherwise" if problem else f"as the page says, {seconds:.0f} s"
        yield Figure(f"{name} from a wheel in an empty folder", value, "as the page says", not problem)


def slow_tests() -> Figure:
    """Runs all slow tests at full size: the 200 mutants, each model's outputs, 20 kills of each kind."""
    environment = {**os.environ, "OPSCOPE_KILLS": "20"}
    done = subprocess.run([BIN / "pytest", "-m", "slow", "-q", "-s", "-rs"], cwd=ROOT, env=environment)
    return Figure("slow tests", f"exit {done.returncode}", "exit 0", done.returncode == 0)


GROUPS: dict[str, Callable[[Bench], Iterable[Figure]]] = {
    "sweeps": sweeps,
    "whole": measure_compiler.whole,
    "levels": measure_compiler.levels,
    "compile": lambda bench: measure_compiler.compile_times(),
    "scale": scale,
    "hosts": lambda bench: hosts(),
    "overhead": lambda bench: overhead(),
    "scaling": lambda bench: scaling(),
    "exports": lambda bench: [exports()],
    "benchmarks": lambda bench: benchmarks(bench.scratch),
    "conformance": lambda bench: measure_compiler.conformance(),
    "vocabulary": lambda bench: measure_compiler.vocabulary(),
    "cycles": lambda bench: measure_cycles.figures(),
    "plans": lambda bench: plans(),
    "mutants": lambda bench: [measure_compiler.mutants()],
    "mutation": lambda bench: [mutation()],
    "faults": lambda bench: [faults(bench.scratch)],
    "attacks": lambda bench: attacks(),
    "verdicts": lambda bench: [*verdicts(), processors(), *scales()],
    "alarms": lambda bench: alarms(),
    "slow_tests": lambda bench: [slow_tests()],
    "nightly": lambda bench: measure_nightly.figures(bench.scratch),
    "database": lambda bench: measure_database.figures(bench.scratch),
    "nights": lambda bench: measure_nights.figures(bench.scratch),
    "guides": lambda bench: walks(bench.scratch),
    "dashboards": lambda bench: measure_dashboards.figures(bench.scratch),
}
"""Name of a group of figures -> the function that measures it, in the order in which all groups are measured."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures the requested groups, or all of them; returns 1 if a figure misses its target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"{', '.join(GROUPS)}; default: all")
    groups = parser.parse_args(arguments).groups
    if unknown := [word for word in groups if word not in GROUPS]:
        print(f"measure: expected {', '.join(GROUPS)}, got {unknown[0]!r}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(Path(scratch))
        figures = [figure for word in groups or GROUPS for figure in GROUPS[word](bench)]
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    print(f"\n{datetime.date.today()}, {os.cpu_count()} cores ({cpu})\n")
    print("| what | measured | target | met |\n|---|---|---|---|")
    return print_figures(figures)


if __name__ == "__main__":
    sys.exit(main())
