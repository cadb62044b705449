"""Every elementwise function that has a formula, spoiled in seven ways: `python -m ci.wrong_numbers.functions host`.

Each function of `formulas/elementwise.py` runs in bf16, f16 and float32 on 4,096 values. What came is right, and so are
the nearest numbers; each of `LIES` is wrong. Prints the verdicts that say otherwise; it ends with 1 if an honest result
is refused, or if fewer than 95 % of the wrong ones are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np

from ci.wrong_numbers.ops import Case, elementwise, run
from opscope.base.op_families import TO_THE_LAST_BIT
from opscope.harness.formulas.elementwise import FORMULAS, operands_of
from opscope.harness.formulas.nearest import precision
from opscope.harness.prepare.domains import domain
from opscope.harness.record.element_types import numpy_dtype

TYPES = ("bf16", "f16", "f32")
SHAPE = (64, 64)
LEAST = 0.95
"""Share of the wrong results that must be refused."""


def _smaller(y: np.ndarray) -> np.ndarray:
    """Which fifth of the values is the smallest."""
    return np.abs(y) < np.quantile(np.abs(y), 0.2)


def _one(y: np.ndarray) -> np.ndarray:
    wrong = y.copy()
    wrong[5, 7] = wrong[5, 7] * 1.1 + 1e-3
    return wrong


LIES: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "2 ulp too large": lambda y, unit: y * (1 + 2 * unit),
    "2 ulp too small": lambda y, unit: y * (1 - 2 * unit),
    "2 % too large": lambda y, _: 1.02 * y,
    "small values zero": lambda y, _: np.where(_smaller(y), 0.0, y),
    "small values negated": lambda y, _: np.where(_smaller(y), -y, y),
    "large values 5 % too large": lambda y, _: np.where(np.abs(y) > np.quantile(np.abs(y), 0.9), 1.05 * y, y),
    "one value 10 % too large": lambda y, _: _one(y),
}
"""Fault -> what it makes of the exact results; of a unit in the last place, relative."""


def case(op_name: str, element: str) -> Case:
    """A function on numbers of its domain."""
    formula, dtype = FORMULAS[op_name], numpy_dtype(element)
    low, high = domain(op_name, 0)
    low, high = max(low, 0.2 if op_name in ("chlo.lgamma", "chlo.digamma") else -6.0), min(high, 6.0)
    inside = 0.02 * (high - low)

    def make(rng: np.random.Generator) -> list[np.ndarray]:
        return [rng.uniform(low + inside, high - inside, SHAPE).astype(dtype) for _ in range(operands_of(formula))]

    return elementwise(op_name, make, SHAPE, element, operands_of(formula), formula)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what passes and should not, and what should and does not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("place", choices=("host", "card"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only functions with this in their name")
    options = parser.parse_args(arguments)
    made = refused = honest = alarms = 0
    for op_name in FORMULAS:
        if options.only not in op_name or (op_name in TO_THE_LAST_BIT and operands_of(FORMULAS[op_name]) == 1):
            continue
        for element in TYPES:
            ran = run(case(op_name, element), options.seed, options.place)
            if ran is None:
                continue
            dtype = ran.golden.dtype
            unit = 2.0 ** -precision(dtype)[0]
            for fault, change in LIES.items():
                if element == "f32" and "ulp" in fault:
                    continue  # a host's library may be as far off
                got = change(ran.exact, unit).astype(dtype)
                made += 1
                refused += not ran.verdict(got).passed
                if ran.verdict(got).passed:
                    print(f"  {options.place}: passes: {op_name} {element}: {fault}", flush=True)
            for got in (ran.exact.astype(dtype), ran.got):
                honest += 1
                check = ran.verdict(got)
                alarms += not check.passed
                if not check.passed:
                    print(f"  {options.place}: false alarm: {op_name} {element}: {check.reason}", flush=True)
    print(f"{options.place}: {refused} of {made} wrong results refused, {alarms} of {honest} honest ones")
    return int(alarms > 0 or refused < LEAST * made)


if __name__ == "__main__":
    sys.exit(main())
