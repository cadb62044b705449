"""Ops that spoil their worker in every way of `harness/tests/faulty_backends/spoiler.py`, between honest ones.

Two sweeps over the same ops: in the second, every other op spoils its worker. An honest op whose record is another
one then, or that is said to have left something behind, is `spoiled`, and is counted with the spoiler before it. A
spoiler without a record is `silent`, and so is one that returned wrong numbers and was judged right.
"""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ci.attacks.attempt import Attempt, Ending
from ci.attacks.small_cache import OF_A_RUN
from ci.faults import module_text
from ci.sweep_command import sweep_command

BACKEND = Path(__file__).resolve().parents[2] / "harness" / "tests" / "faulty_backends" / "spoiler.py"


def ways() -> list[str]:
    """The names of all ways of spoiling a worker."""
    tree = ast.parse(BACKEND.read_text(encoding="utf-8"))
    table = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Ways")
    return [node.name for node in table.body if isinstance(node, ast.FunctionDef)]


SAMPLE, FULL = 8, len(ways())


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """One attempt for each spoiling op."""
    draw = random.Random(seed)
    names = [name for _ in range(count // FULL + 1) for name in draw.sample(ways(), FULL)][:count]
    (folder / "ops.mlir").write_text(module_text(2 * count), encoding="utf-8")
    before, _ = _sweep(folder, "honest", {})
    order = list(before)
    plan = dict(zip(order[::2], names, strict=True))
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    after, output = _sweep(folder, "spoiled", {"SPOIL": str(folder / "plan.json"), "SPOILED": str(folder)})
    left = _left_processes(str(folder))
    for number, (op_id, name) in enumerate(plan.items()):
        neighbour = order[2 * number + 1]
        record = after.get(op_id)
        ending: Ending = (
            "noticed" if record and (record["left_behind"] or record["status"] != "success") else "no effect"
        )
        shown = ""
        if _stable(before[neighbour]) != _stable(after.get(neighbour, {})):
            ending, shown = "spoiled", _difference(before[neighbour], after.get(neighbour, {}))
        elif record is None or (name.startswith("lie") and record["status"] == "success"):
            ending, shown = "silent", f"{record and record['status']}\n{output[-2000:]}"
        elif name in left:
            ending, shown = "spoiled", f"process {left[name]} still runs"
        detail = "" if record is None else f"{record['status']} {record['error_message'] or ''} {record['left_behind']}"
        yield Attempt(name, detail, ending, shown)


def _sweep(folder: Path, name: str, environment: Mapping[str, str]) -> tuple[dict[str, dict[str, Any]], str]:
    """Runs a sweep; returns its records by op, in the order in which they were written, and its output."""
    run = folder / name
    options = "--model ops.mlir --no-cache --reruns 0 --op-timeout 5"
    done = subprocess.run(
        sweep_command(options, "--backend", str(BACKEND), "--run-dir", str(run)),
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    lines = [json.loads(line) for path in (run / "journal").glob("*.jsonl") for line in path.read_text().splitlines()]
    records = {line["op_id"]: line for line in lines}
    if not records or len(records) != len(lines) or done.returncode not in (0, 1):
        raise SystemExit(
            f"{name}: exit {done.returncode}, {len(lines)} records\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return records, done.stdout + done.stderr


def _stable(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in OF_A_RUN}


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    before, after = _stable(before), _stable(after)
    return "\n".join(
        f"{key}: {before.get(key)!r} -> {after.get(key)!r}" for key in before if before[key] != after.get(key)
    )


def _left_processes(folder: str) -> dict[str, int]:
    """The processes of the sweep that still run, by the way that forks such."""
    pids = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if f"SPOILED={folder}".encode() in words:
            pids["leaves_a_daemon"] = int(path.parent.name)
    return pids
