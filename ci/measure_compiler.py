"""The compiler's numbers: whole models, optimization levels, compile times, conformance; groups of `make measure`."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import time
from collections.abc import Iterator

from bench import BIN, MODELS, ROOT, Bench, compile_milliseconds, table, tool
from figures import Figure

LEVELS = (0, 2)
"""Optimization levels that are compared."""


def whole(bench: Bench) -> Iterator[Figure]:
    """The models of the main job, each as one program: outputs and all intermediate values against the walk's."""
    for model in MODELS:
        for dtype, limit in (("float32", 0.999), ("bfloat16", 0.99)):
            for level in LEVELS:
                options = ("--workflow", "full", "--no-cache", "--optimization-level", str(level))
                seconds, run = bench.sweep(model, "--dtype", dtype, *options)
                (test,) = run["whole_models"]
                pcc, jump = test["pcc"] or 0.0, test["jump"]
                compared = f"{test['intermediates']} values compared"
                value = f"PCC {pcc:.6f}, {compared}, {'a' if jump else 'no'} jump; {seconds:.0f} s"
                met = test["status"] == "success" and pcc >= limit and jump is None
                yield Figure(f"{model} {dtype}, whole, level {level}", value, f"PCC >= {limit}, no jump", met)


def levels(bench: Bench) -> Iterator[Figure]:
    """The models' unique ops at the lowest and highest level: whether all are right, and the compile time of one."""
    for level in LEVELS:
        spent: list[float] = []
        for model in MODELS:
            seconds, run = bench.sweep(model, "--no-cache", "--optimization-level", str(level))
            spent += compile_milliseconds(run)
            right, total = run["ledger"]["by_status"]["success"], len(run["op_tests"])
            value = f"{right}/{total} ({seconds:.1f} s)"
            yield Figure(f"{model}, level {level}: ops that are right", value, "all", right == total > 0)
        median = statistics.median(spent)
        name = f"{len(spent)} ops, level {level}: median time of compiling one"
        yield Figure(name, f"{median:.1f} ms", "<= 15 ms", median <= 15)


def compile_times() -> Iterator[Figure]:
    """Compile times of whole models, as processor time and wall time."""
    for row in table("ci.benchmarks.bench_whole", "resnet50", "bert_base"):
        cpu, clock = float(row["CPU s"]), float(row["clock s"])
        name = f"{row['model']} compiled whole, level {row['level']}"
        yield Figure(name, f"{cpu:.1f} s, {clock:.1f} s by the clock", "<= 5 s of the processor", cpu <= 5)


def vocabulary() -> Iterator[Figure]:
    """tt-mlir's words: its FileCheck tests, where they are beside the checkout, and the names of its ops."""
    suite = ROOT.parent / "shared" / "data" / "ttmlir_filecheck.zip"
    if suite.exists():
        output, _ = tool("opscope.compiler.tests.tt_mlir_suite", str(suite))
        last = output.strip().splitlines()[-1]
        passed, total = map(int, re.findall(r"\d+", last)[:2])
        yield Figure("FileCheck tests of tt-mlir", last, ">= 76 %", passed >= 0.76 * total)
    names = ROOT / "compiler" / "tests" / "data" / "tt_mlir_op_names.json"
    command = [BIN / "opscope", "ops", "--against", str(names)]
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE)
    counts = " ".join(done.stdout.split())
    counts = counts[counts.rindex("176 of") if "176 of" in counts else 0 :][-160:]
    here = [int(number) for number in re.findall(r"(\d+) of \d+ ops of", counts)]
    yield Figure("names of tt-mlir's ops in the table", counts, "150 of ttir, 150 of ttnn", min(here, default=0) >= 150)


def conformance() -> Iterator[Figure]:
    """The specification's stored cases: how many of each class are right, and how long all of them take."""
    for level in LEVELS:
        before, started = os.times(), time.monotonic()
        output, code = tool("opscope.compiler.tests.conformance", "--optimization-level", str(level))
        clock, after, name = time.monotonic() - started, os.times(), f"conformance, level {level}"
        seconds = after.children_user - before.children_user
        score = re.search(r"device (\d+) of (\d+) right .*host (\d+) of (\d+) right, never (\d+)", output)
        if score is None:
            yield Figure(name, f"exit {code}", "a score", False)
            continue
        right, device, host_right, host, never = map(int, score.groups())
        yield Figure(f"{name}: device cases right", f"{right}/{device}", "all", right == device > 0)
        yield Figure(f"{name}: host cases right", f"{host_right}/{host}", ">= 99 %", host_right >= 0.99 * host)
        yield Figure(f"{name}: never, by the hardware's formats", str(never), "<= 21", never <= 21)
        value = f"{seconds:.0f} s, {clock:.0f} s by the clock"
        yield Figure(f"{name}: all cases", value, "<= 180 s of the processor", seconds <= 180)


def mutants(count: int = 10_000) -> Figure:
    """Mutated texts of the specification's cases: each must compile or end with a typed error."""
    output, code = tool("opscope.compiler.tests.mutations", "--count", str(count))
    counts = ", ".join(" ".join(line.split()) for line in output.splitlines())
    return Figure(f"{count} mutants of the cases", counts or f"exit {code}", "all typed", code == 0)
