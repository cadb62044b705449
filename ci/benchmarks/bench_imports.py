"""What pytest's process imports in a run in which nothing changed, in milliseconds by room and by package.

    python -m ci.benchmarks.bench_imports --model mnist_mlp

A first run fills a cache of its own; then `-X importtime` measures three more, of which the least counts. Prints one
JSON object, and ends with exit code 1 if a room takes longer than its limit. Clocks of a busy machine say little: which
packages must not be imported at all is a test (reports/tests/test_plugin.py).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

LIMITS = {"base": 40, "models": 30, "harness": 250, "reports": 10}
"""Milliseconds of a room's own modules, without what they import from elsewhere."""

RUNS = 3
_LINE = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", re.MULTILINE)


def by_owner(text: str) -> dict[str, float]:
    """Milliseconds of importing, by room of ours and by foreign package, from what `-X importtime` writes."""
    owners: Counter[str] = Counter()
    for microseconds, module in _LINE.findall(text):
        first, *rest = module.split(".")
        owner = rest[0] if first == "opscope" and rest else first
        owners[owner] += int(microseconds)
    return {owner: microseconds / 1000 for owner, microseconds in owners.most_common()}


def over(measured: dict[str, float]) -> list[str]:
    """The rooms that take longer than they may."""
    return [room for room, limit in LIMITS.items() if measured.get(room, 0.0) > limit]


def run(model: str, folder: Path, options: Iterable[str] = ()) -> str:
    """Runs a model in a folder with a cache of its own; what it writes to stderr. Raises CalledProcessError."""
    command = [sys.executable, *options, "-m", "pytest", "--model", model, "--op-by-op", "-q"]
    environment = {**os.environ, "OPSCOPE_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stderr


def main() -> int:
    """Measures, prints, and says whether all rooms are within their limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="mnist_mlp")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        run(options.model, folder)
        measured = [by_owner(run(options.model, folder, ("-X", "importtime"))) for _ in range(RUNS)]
    least = min(measured, key=lambda owners: sum(owners.values()))
    report = {"whole": sum(least.values()), "limits": LIMITS, "over": over(least), "milliseconds": least}
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    return 1 if report["over"] else 0


if __name__ == "__main__":
    sys.exit(main())
