"""Runs attacks and prints what each ended in: `python -m ci.attacks [NAME ...] [--sample] [--count N] [--seed S]`.

An attack is a module of this folder with `attack(count, seed, folder) -> Iterator[Attempt]` and two numbers of
attempts: `SAMPLE`, which take seconds, for `.ci/run`, and `FULL` for `make measure`. The exit code is 1 if an
attempt ended in a defect, 2 for an unknown name.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.table import Table

import ci.attacks
from ci.attacks.attempt import Attempt


def attacks() -> dict[str, ModuleType]:
    """Every attack by its name."""
    names = sorted(
        package.name for package in pkgutil.iter_modules(ci.attacks.__path__) if not package.name.startswith("_")
    )
    modules = {name: importlib.import_module(f"ci.attacks.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "attack")}


def run(name: str, module: ModuleType, count: int, seed: int, console: Console) -> list[Attempt]:
    """Runs one attack in a folder that is removed afterwards; shows how far it is where someone watches."""
    attempts: list[Attempt] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"attack-{name}-") as folder, console.status(name) as status:
        for attempt in module.attack(count, seed, Path(folder)):
            attempts.append(attempt)
            status.update(f"{name}: {len(attempts)} of {count}, {sum(each.defect for each in attempts)} defects")
            if attempt.defect:
                console.print(f"{attempt.ending} {attempt.kind}: {attempt.detail}\n{attempt.shown}", markup=False)
    table = Table(title=f"{name}: {len(attempts)} attempts, seed {seed}, {time.monotonic() - started:.0f} s")
    endings = sorted({attempt.ending for attempt in attempts})
    table.add_column("kind")
    for ending in endings:
        table.add_column(ending, justify="right")
    counts = Counter((attempt.kind, attempt.ending) for attempt in attempts)
    for kind in sorted({attempt.kind for attempt in attempts}):
        table.add_row(kind, *(str(counts[kind, ending] or "") for ending in endings))
    console.print(table)
    return attempts


def main(arguments: list[str] | None = None) -> int:
    """Runs the attacks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m ci.attacks", description="Run attacks on opscope itself.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks to run; default: all")
    parser.add_argument("--sample", action="store_true", help="only the few attempts that .ci/run makes")
    parser.add_argument("--count", type=int, help="number of attempts of each attack")
    parser.add_argument("--seed", type=int, default=1, help="seed of what is drawn (default: 1)")
    parser.add_argument("--list", action="store_true", help="print the names of the attacks, one per line, and end")
    options = parser.parse_args(arguments)
    known = attacks()
    if options.list:
        print(*known, sep="\n")
        return 0
    for name in options.names:
        if name not in known:
            print(f"attacks: expected one of {', '.join(known)}, got {name!r}; try --help", file=sys.stderr)
            return 2
    console = Console()
    defects = 0
    for name in options.names or known:
        module = known[name]
        count = options.count or (module.SAMPLE if options.sample else module.FULL)
        attempts = run(name, module, count, options.seed, console)
        defects += sum(attempt.defect for attempt in attempts)
        if len(attempts) < count:
            console.print(f"{name}: expected {count} attempts, got {len(attempts)}")
            defects += 1
    return min(defects, 1)


if __name__ == "__main__":
    sys.exit(main())
