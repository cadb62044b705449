"""Figures of the simulator's time against silicon, for `make measure ARGS=cycles`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bench import tool
from figures import Figure

TOTAL = re.compile(r"^(.+): (\d+) rows, median ([\d.]+) %, p95 ([\d.]+) %$", re.M)
EPOCH = re.compile(r"^(\S+): ([\d,]+) cycles, measured ([\d,]+) \(([+-][\d.]+) %\)", re.M)
WORSE = re.compile(r"^worse than TT-Buda's formulas in median and p95: (.*)$", re.M)


def figures() -> Iterator[Figure]:
    """Yields errors of rows that no constant was fitted to, of files left out, and of epochs of whole netlists."""
    output, code = tool("ci.calibration.bench_cycles")
    if code:
        yield Figure("cycles against silicon", f"exit {code}", "figures", False)
        return
    for what, count, median, high in TOTAL.findall(output):
        limited = what in ("grayskull", "wormhole_b0")
        met = not limited or (float(median) <= 5 and float(high) <= 15)
        limit = "median <= 5 %, p95 <= 15 %" if limited else ""
        yield Figure(f"cycles of ops, {what}: {count} rows", f"median {median} %, p95 {high} %", limit, met)
    worse = WORSE.search(output)
    yield Figure(
        "files worse than TT-Buda's formulas", worse[1] if worse else "?", "none", bool(worse and worse[1] == "none")
    )
    for name, cycles, measured, off in EPOCH.findall(output):
        yield Figure(
            f"epoch of {name}", f"{cycles} cycles, measured {measured}: {off} %", "10 %", abs(float(off)) <= 10
        )
