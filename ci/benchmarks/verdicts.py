"""Seeded faults on results of real ops of the five models: how many a verdict refuses, of each class.

`python -m ci.benchmarks.verdicts --faults 600 --kernels 100 --seed 1` prints Markdown tables and ends with 1 if a class
misses 98 %, or if one of the kernels that are wrong in one element or one row of a face only is not refused.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence

from opscope.harness.tests.wrong_results import FAULTS, FIDELITIES, FORMATS, MODELS, Outcome, kernel_outcomes, outcomes
from opscope.simulator.tests.mutants import PLACED

LEAST = 0.98
"""Share of the faults that documented rounding could not have made which must be caught, with their place."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables; 1 if a class misses its share."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--faults", type=int, default=600)
    parser.add_argument("--kernels", type=int, default=100, help="kernels that are wrong in one place only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--dtype", default="float32", help="element type of the models")
    options = parser.parse_args(arguments)
    models = tuple(options.models)
    settings = len(options.models) * len(FORMATS) * len(FIDELITIES)
    faults = -(-options.faults // settings)
    missed = _table("fault", FAULTS, outcomes(options.seed, faults, models, options.dtype) if faults else (), LEAST)
    broken = kernel_outcomes(options.seed, options.kernels, models, options.dtype)
    return int(missed | _table("broken kernel", PLACED, broken, 1.0))


def _table(title: str, kinds: Iterable[str], outcomes: Iterable[Outcome], least: float) -> bool:
    """Prints what became of each kind. Whether too few of one were caught with their place."""
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.fault].append(outcome)
        if not outcome.possible and not (outcome.caught and outcome.placed):
            print("missed" if not outcome.caught else "misplaced", outcome, file=sys.stderr)
    if not by_kind:
        return False
    print(
        f"| {title} | made | undetectable | caught | of | with place | caught beyond |\n|---|---|---|---|---|---|---|"
    )
    missed = False
    for kind in kinds:
        own = by_kind[kind]
        real = [outcome for outcome in own if not outcome.possible]
        caught = sum(outcome.caught for outcome in real)
        placed = sum(outcome.caught and outcome.placed for outcome in real)
        beyond = sum(outcome.caught for outcome in own if outcome.possible)
        print(
            f"| {kind} | {len(own)} | {len(own) - len(real)} | {caught} | {len(real)} | {placed} | {beyond} |",
            flush=True,
        )
        missed |= placed < least * len(real)
    return missed


if __name__ == "__main__":
    sys.exit(main())
