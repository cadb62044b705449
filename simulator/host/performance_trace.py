"""A file of a run's performance: cycles of each epoch and op (LIGHT), and bytes, cores and places (VERBOSE)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opscope.base.atomic_write import write_whole
from opscope.compiler.target.plan import Plan
from opscope.simulator.api import Profile

FOLDER = "perf_results"


def write(folder: Path, name: str, level: str, profile: Profile, plan: Plan) -> Path:
    """Writes `perf_results/<name>.json` into a folder, over the one of the run before; returns it. Raises OSError."""
    shown = ("kernel", "location", "cycles")
    ops = [
        {name: value for name, value in op.figures().items() if level == "VERBOSE" or name in shown}
        for op in profile.ops
    ]
    document: dict[str, Any] = {
        "level": level,
        "total_cycles": profile.total_cycles,
        "device_ns": profile.device_ns,
        "epochs": [
            {"number": epoch.number, "chip": epoch.chip, "cycles": epoch.cycles, "slowest": epoch.slowest}
            for epoch in profile.epochs
        ],
        "ops": ops,
    }
    if level == "VERBOSE":
        document["placed_ops"] = [
            {"name": op.name, "epoch": op.epoch, "chip": op.chip, "row": op.row, "col": op.col, "grid": list(op.grid)}
            for op in plan.ops
        ]
    path = folder / FOLDER / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(document, indent=1) + "\n")
    return path
