"""Failing modules of 60 to 900 ops, each with a fault of a pass: what `opscope reduce` makes of them.

    python -m ci.benchmarks.reducing [--count 30] [--seed 11] [--after 0]

Two thirds have a wrong fusion of two ops that are right alone, one third an op that is wrong by itself, on a class over
XLA. Kept is the kind: status, stage, and whether the smallest piece is an op or several. Seconds are processor time of
the command and all that it started, then the clock's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from opscope.base.children.parent_death import become_reaper
from opscope.base.children.process_tree import children_of
from opscope.harness.tests.faulty_backends import edited
from opscope.harness.tests.triage.test_first_bad import drawn, failing
from opscope.harness.triage import bundle

OPSCOPE = Path(sys.executable).with_name("opscope")
FUSED = """if op.name == "stablehlo.{last}":
    for value in op.operands:
        if getattr(value.owner, "name", "") == "stablehlo.{first}" and len(list(value.uses)) == 1:
            scaled(op, 1.05)
            return"""
PAIRS = (("tanh", "add"), ("sine", "multiply"), ("cosine", "subtract"), ("add", "tanh"), ("multiply", "logistic"))
WRONG = "if op.name == 'stablehlo.{}': scaled(op, 1.02)"
LEAST, MOST = 60, 900


def main() -> None:
    """Draws modules until so many have failed, and prints a line for each and one for all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--after", type=int, default=0, help="how many are drawn first and not reduced")
    options = parser.parse_args()
    become_reaper()
    draw, ops, seconds, kept, failed = random.Random(options.seed), [], list[tuple[float, float]](), 0, 0
    while failed < options.count:
        size, alone = int(LEAST * (MOST / LEAST) ** draw.random()), failed % 3 == 2
        first, last = draw.choice(PAIRS)
        rule = (
            WRONG.format(draw.choice(("cosine", "logistic", "subtract")))
            if alone
            else FUSED.format(first=first, last=last)
        )
        with TemporaryDirectory(prefix="reducing") as name:
            folder = Path(name)
            try:
                where = failing(folder, drawn(draw, size), edited.write(folder, "seeded", rule))
            except AssertionError:
                continue  # the fault is nowhere in it, or moves no result far enough
            failed += 1
            if failed <= options.after:
                continue
            before, began, others = bundle.read(where).failure, _now(), set(children_of(os.getpid()))
            words = ["reduce", str(where), "--out", str(folder / "out"), "--budget", "5m", "--json"]
            done = subprocess.run([OPSCOPE, *words], check=True, stdout=subprocess.PIPE)
            reduced = json.loads(done.stdout)
            while orphans := set(children_of(os.getpid())) - others:
                for pid in orphans:
                    os.waitpid(pid, 0)
            seconds.append((_now()[0] - began[0], _now()[1] - began[1]))
            after = bundle.read(folder / "out")
        ops.append(max(1, len(after.row.holds)))
        alike = (before.status, before.stage) == (after.failure.status, after.failure.stage)
        kept += alike and (ops[-1] == 1) == alone
        print(f"{size} ops: {ops[-1]} left, {reduced['tried']} modules tried, {_text(seconds[-1])}", flush=True)
    print(
        f"{kept} of {len(ops)} kept; ops: median {statistics.median(ops):g}, most {max(ops)}; "
        f"median {_text([*map(statistics.median, zip(*seconds, strict=True))])}, "
        f"most {_text([*map(max, zip(*seconds, strict=True))])}"
    )


def _now() -> tuple[float, float]:
    """Seconds of processor time of all children that have ended, and of the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, time.monotonic()


def _text(seconds: Sequence[float]) -> str:
    return f"{seconds[0]:.0f} s of processor time, {seconds[1]:.0f} s"


if __name__ == "__main__":
    main()
