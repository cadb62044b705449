"""Faults of every kind injected into one sweep: `python ci/faults.py --faults 500`.

Runs two sweeps over the same ops, the second with a fault at every chosen op: each fault must get the right label, no
other op's verdict may change, and every op must have exactly one record. It only starts command lines.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BACKENDS = ROOT / "harness" / "tests" / "faulty_backends"
UNARY = ("abs", "ceil", "cosine", "exponential", "floor", "logistic", "negate", "sign", "sine", "tanh")
BOTH_STAGES = ("legalize", "run")
RUN_ONLY = frozenset({"overwrite"})
"""Faults that need the op's inputs."""


def module_text(ops: int) -> str:
    """A module of `ops` different small ops, each with its own argument."""
    names = [(UNARY[index % len(UNARY)], 8 + index // len(UNARY)) for index in range(ops)]
    arguments = ", ".join(f"%a{index}: tensor<{size}xf32>" for index, (_, size) in enumerate(names))
    types = ", ".join(f"tensor<{size}xf32>" for _, size in names)
    lines = [f"  %r{i} = stablehlo.{name} %a{i} : tensor<{size}xf32>" for i, (name, size) in enumerate(names)]
    results = ", ".join(f"%r{index}" for index in range(ops))
    body = "\n".join(lines)
    return f"func.func @main({arguments}) -> ({types}) {{\n{body}\n  return {results} : {types}\n}}\n"


def plan(op_ids: list[str], faults: int, seed: int, table: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Op id -> stage and fault: every kind equally often, at ops drawn by `seed`."""
    draw = random.Random(seed)
    kinds = [list(table)[index % len(table)] for index in range(faults)]
    draw.shuffle(kinds)
    chosen = draw.sample(sorted(op_ids), faults)
    return {
        op_id: ("run" if kind in RUN_ONLY else draw.choice(BOTH_STAGES), kind)
        for op_id, kind in zip(chosen, kinds, strict=True)
    }


def sweep(folder: Path, name: str, options: list[str], environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Runs a sweep; returns its records by op. Raises SystemExit if an op has several or the ledger does not add up."""
    run = folder / name
    where = ["--model", "faults.mlir", "--backend", str(BACKENDS / "injector.py"), "--run-dir", str(run)]
    command = [sys.executable, "-m", "pytest", "-p", "no:benchmark", "--op-by-op", *where, *options]
    command += ["-q", "--no-cache", "--no-report", "--reruns", "0"]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    segments = sorted((run / "journal").glob("*.jsonl"))
    lines = [json.loads(line) for segment in segments for line in segment.read_text().splitlines()]
    if not lines or done.returncode not in (0, 1) or "≠" in done.stdout:
        raise SystemExit(f"{name}: exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    records = {line["op_id"]: line for line in lines}
    if len(records) != len(lines):
        raise SystemExit(f"{name}: {len(lines)} records of {len(records)} ops")
    return records


def label(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record that label a fault."""
    labels = {key: record[key] for key in ("status", "crash_kind", "overwritten_inputs")}
    return {key: value for key, value in labels.items() if value}


def main(arguments: list[str] | None = None) -> int:
    """Runs both sweeps and compares them; returns 1 if a label is wrong, a verdict changed or a record is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--faults", type=int, default=500)
    parser.add_argument("--ops", type=int, help="default: twice as many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0, help="pytest -n")
    parser.add_argument("--op-timeout", type=float, default=10.0)
    options = parser.parse_args(arguments)
    table = json.loads((BACKENDS / "faults.json").read_text())
    spread = ["-n", str(options.workers)] if options.workers else []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "faults.mlir").write_text(module_text(options.ops or 2 * options.faults))
        before = sweep(folder, "clean", spread, {})
        chosen = plan(list(before), options.faults, options.seed, table)
        (folder / "plan.json").write_text(json.dumps(chosen))
        started = time.monotonic()
        limits = ["--op-timeout", str(options.op_timeout), "--op-memory", "700M"]
        after = sweep(folder, "faults", [*spread, *limits], {"INJECT": str(folder / "plan.json")})
        seconds = time.monotonic() - started
    right = [op_id for op_id, (_, kind) in chosen.items() if label(after.get(op_id, Counter())) == table[kind]]
    lost = set(before) - set(after)
    changed = [op_id for op_id in before.keys() - chosen.keys() - lost if label(before[op_id]) != label(after[op_id])]
    for op_id in sorted(set(chosen) - set(right)):
        print(f"{op_id} {chosen[op_id]}: expected {table[chosen[op_id][1]]}, got {label(after.get(op_id, Counter()))}")
    for op_id in changed:
        print(f"{op_id}: was {label(before[op_id])}, is {label(after[op_id])} {after[op_id]['error_message']}")
    print(
        f"{len(right)} of {len(chosen)} faults under their own label ({len(table)} kinds), "
        f"{len(changed)} of {len(before) - len(chosen)} other verdicts changed, {len(lost)} records lost; "
        f"{seconds:.0f} s"
    )
    return 0 if len(right) == len(chosen) and not changed and not lost else 1


if __name__ == "__main__":
    sys.exit(main())
