"""Runs a repeatable sample of the slow tests: the same seed takes the same tests, another seed others.

`python ci/sample_slow.py --seed 2 --count 6`; at most one test per file, so that a sample touches many places.
The exit code is pytest's.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Iterable


def choose(node_ids: Iterable[str], seed: int, count: int) -> list[str]:
    """Chooses `count` node ids, each from another file; the order of `node_ids` does not matter."""
    files: dict[str, list[str]] = {}
    for node_id in sorted(node_ids):
        files.setdefault(node_id.partition("::")[0], []).append(node_id)
    draw = random.Random(seed)
    one_each = [draw.choice(tests) for _, tests in sorted(files.items())]
    return sorted(draw.sample(one_each, min(count, len(one_each))))


def collect() -> list[str]:
    """The node ids of every slow test, as pytest names them."""
    command = [sys.executable, "-m", "pytest", "-m", "slow", "--collect-only", "-q"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 5):
        sys.exit(f"pytest --collect-only: expected exit code 0, got {done.returncode}\n{done.stdout}{done.stderr}")
    return [line for line in done.stdout.splitlines() if "::" in line]


def main(arguments: list[str] | None = None) -> int:
    """Draws the sample and runs it; returns pytest's exit code, or 0 if there are no slow tests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=6)
    options = parser.parse_args(arguments)
    sample = choose(collect(), options.seed, options.count)
    print(f"slow tests: {len(sample)} chosen with seed {options.seed}", *sample, sep="\n  ", flush=True)
    if not sample:
        return 0
    workers = ["-n", "2", "--dist", "load", "-p", "no:benchmark"]
    return subprocess.run([sys.executable, "-m", "pytest", *workers, "--durations=5", "-m", "slow", *sample]).returncode


if __name__ == "__main__":
    sys.exit(main())
