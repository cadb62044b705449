"""Runs a repeatable sample of the slow tests: the same seed takes the same tests, another seed others.

`python ci/sample_slow.py --seed 2 --count 6`; at most one test per file, so that a sample touches many places.
The exit code is pytest's.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def choose(node_ids: Iterable[str], seed: int, count: int) -> list[str]:
    """Chooses `count` node ids, each from another file; the order of `node_ids` does not matter."""
    files: dict[str, list[str]] = {}
    for node_id in sorted(node_ids):
        files.setdefault(node_id.partition("::")[0], []).append(node_id)
    draw = random.Random(seed)
    one_each = [draw.choice(tests) for _, tests in sorted(files.items())]
    return sorted(draw.sample(one_each, min(count, len(one_each))))


def left(node_ids: Iterable[str], without: Collection[str]) -> list[str]:
    """The tests that lie in none of these files; which were drawn does not depend on it."""
    return [node_id for node_id in node_ids if node_id.partition("::")[0] not in without]


def files() -> list[str]:
    """The files of tests that have a mark by which some are slow: to collect the others takes as long again."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    every = (path for room in options["testpaths"] for path in (ROOT / room).rglob("test_*.py"))
    texts = ((path, path.read_text(encoding="utf-8")) for path in every)
    return sorted(str(path.relative_to(ROOT)) for path, text in texts if "slow" in text or "crossed" in text)


def collect(paths: Iterable[str]) -> list[str]:
    """The node ids of every slow test below these paths (none: everywhere), as pytest names them."""
    command = [sys.executable, "-m", "pytest", "-m", "slow", "--collect-only", "-q", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 5):
        sys.exit(f"pytest --collect-only: expected exit code 0, got {done.returncode}\n{done.stdout}{done.stderr}")
    return [line for line in done.stdout.splitlines() if "::" in line]


def main(arguments: list[str] | None = None) -> int:
    """Draws the sample and runs it; returns pytest's exit code, or 0 if there are no slow tests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--without", nargs="+", default=[], metavar="FILE", help="leave out what runs anyway")
    options = parser.parse_args(arguments)
    sample = left(choose(collect(files()), options.seed, options.count), options.without)
    print(f"slow tests: {len(sample)} chosen with seed {options.seed}", *sample, sep="\n  ", flush=True)
    if not sample:
        return 0
    workers = ["-n", "2", "--dist", "load", "-p", "no:benchmark"]
    return subprocess.run([sys.executable, "-m", "pytest", *workers, "--durations=5", "-m", "slow", *sample]).returncode


if __name__ == "__main__":
    sys.exit(main())
