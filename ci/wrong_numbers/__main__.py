"""A hundred and sixty-nine wrong and ninety-four honest results, judged: `python -m ci.wrong_numbers --seed 1`.

Each result is judged as if it came from this machine and as if it came from the simulated card (n150). Prints a line
for each wrong one that passes and each honest one that is refused, then how many were refused; it ends with 1 if fewer
than 95 % (host) or 90 % (card) of the wrong ones are, or if an honest one is. What the documented rounding could have
made itself, element by element, is no evidence of a fault and counted apart.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence

from ci.wrong_numbers.cases import CASES
from ci.wrong_numbers.honest import HONEST
from ci.wrong_numbers.ops import run
from ci.wrong_numbers.wrong import WRONG

LEAST = {"host": 0.95, "card": 0.90}
"""Share of the wrong results that must be refused."""


def table(seed: int, place: str, only: str = "") -> bool:
    """Prints what became of all results at one place; whether that is enough."""
    once = functools.cache(lambda case: run(CASES[case], seed, place))
    refused = hidden = made = 0
    for wrong in WRONG:
        if only not in f"{wrong.kind}: {wrong.case}" or (ran := once(wrong.case)) is None:
            continue
        made += 1
        result = wrong.change(ran)
        if not ran.verdict(result).passed:
            refused += 1
        elif ran.hidden(result):
            hidden += 1
            print(f"  {place}: hidden by rounding: {wrong.kind}: {wrong.case}")
        else:
            print(f"  {place}: passes: {wrong.kind}: {wrong.case}")
    alarms = 0
    for honest in HONEST:
        if only not in f"{honest.kind}: {honest.case}" or (ran := once(honest.case)) is None:
            continue
        check = ran.verdict(honest.change(ran) if place == "host" else ran.got)
        if not check.passed:
            alarms += 1
            print(f"  {place}: false alarm: {honest.kind}: {honest.case}: {check.reason}")
    print(
        f"seed {seed}, {place}: {refused} of {made - hidden} wrong results refused, {hidden} more hidden by the "
        f"documented rounding; {alarms} of {len(HONEST)} honest ones refused",
        flush=True,
    )
    return refused >= LEAST[place] * (made - hidden) and not alarms


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables of a seed; 1 if too many wrong results pass or an honest one does not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--places", nargs="+", choices=("host", "card"), default=["host", "card"])
    parser.add_argument("--only", default="", help="only faults with this in their name")
    options = parser.parse_args(arguments)
    enough = [table(options.seed, place, options.only) for place in options.places]
    return int(not all(enough))


if __name__ == "__main__":
    sys.exit(main())
