"""Seeded faults on results of real ops of the five models: how many a verdict refuses, of each class.

`python -m ci.benchmarks.verdicts --faults 600 --seed 1` prints a Markdown table and ends with 1 if a class misses 98 %.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence

from opscope.harness.tests.wrong_results import FAULTS, FIDELITIES, FORMATS, MODELS, Outcome, outcomes

LEAST = 0.98
"""Share of the faults that documented rounding could not have made which must be caught, with their place."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 if a class misses its share."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--faults", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", nargs="*", default=MODELS)
    options = parser.parse_args(arguments)
    settings = len(options.models) * len(FORMATS) * len(FIDELITIES)
    found: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes(options.seed, -(-options.faults // settings), tuple(options.models)):
        found[outcome.fault].append(outcome)
        if not outcome.possible and not (outcome.caught and outcome.placed):
            print("missed" if not outcome.caught else "misplaced", outcome, file=sys.stderr)
    print("| fault | made | undetectable | caught | of | with place | caught beyond |\n|---|---|---|---|---|---|---|")
    missed = False
    for kind in FAULTS:
        own = found[kind]
        real = [outcome for outcome in own if not outcome.possible]
        caught = sum(outcome.caught for outcome in real)
        placed = sum(outcome.caught and outcome.placed for outcome in real)
        beyond = sum(outcome.caught for outcome in own if outcome.possible)
        print(f"| {kind} | {len(own)} | {len(own) - len(real)} | {caught} | {len(real)} | {placed} | {beyond} |")
        missed |= placed < LEAST * len(real)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
