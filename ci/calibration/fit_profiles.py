"""Fits the figures of `simulator/timing/card_rates.py` to profiles; reports the errors of rows and runs left out.

`python -m ci.calibration.fit_profiles FILE.csv`: the rows of a kernel in one run are priced with figures that were
fitted, from those that are there, to all other rows; then every row of a kernel of which two runs have three rows or
more, with figures fitted to the other runs.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.optimize import least_squares

from ci.calibration.card_profiles import ProfileRow, profile_rows
from ci.calibration.profile_rows import price
from opscope.simulator.timing.card_rates import CARD_RATES

BOTH = ("wormhole_b0", "blackhole")
WORMHOLE, BLACKHOLE = ("wormhole_b0",), ("blackhole",)
FITTED: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("start",), BOTH),
    (("read", "written"), WORMHOLE),
    (("read",), BLACKHOLE),
    (("written",), BLACKHOLE),
    *(((name,), BOTH) for name in ("word", "segment", "line", "window", "row_ns", "first_tile", "softmax_row")),
    (("unpacked",), BLACKHOLE),
)
"""Figures that one factor changes, and their archs. `page` stays; of Wormhole too few rows are bound by DRAM to tell
reads from writes."""
SMALL = 0.05
"""Error up to which squares count."""
PULL = 0.02
"""Weight of staying near the figures that are there, which decides what the rows leave open."""
LEAST = 1e-9
ONE_ROW = frozenset({"softmax"})
"""Kernels with a figure of their own that a single row decides: what is left without it says nothing."""


@dataclass(frozen=True)
class Trial:
    """Rows and the figures that they are priced with."""

    rows: Sequence[ProfileRow]
    own_split: bool

    def off(self, factors: np.ndarray) -> list[float]:
        """Returns the logarithm of each row's ratio, with the figures changed by factors."""
        with changed(factors):
            return [math.log(max(LEAST, price(row, own_split=self.own_split).ratio)) for row in self.rows]

    def fit(self) -> np.ndarray:
        """Returns the factors of the least error."""
        start = np.ones(len(FITTED))

        def both(factors: np.ndarray) -> list[float]:
            return [*self.off(factors), *(PULL * np.log(factors))]

        found = least_squares(both, start, bounds=(0.2, 5), loss="soft_l1", f_scale=SMALL, diff_step=1e-2, max_nfev=5)
        return np.asarray(found.x)


@contextmanager
def changed(factors: np.ndarray) -> Iterator[None]:
    """The figures times factors, as long as it lasts."""
    rates: dict[str, Any] = dict(CARD_RATES)
    for (names, archs), factor in zip(FITTED, factors, strict=True):
        for arch in archs:
            rates[arch] = replace(rates[arch], **{name: getattr(rates[arch], name) * float(factor) for name in names})
    with patch.dict(CARD_RATES, rates):  # pyright: ignore[reportArgumentType]
        yield


def left_out(rows: Sequence[ProfileRow], folds: Sequence[Sequence[int]], *, own_split: bool) -> dict[int, float]:
    """Returns the error of each row of each fold in percent, with figures fitted to all rows outside of it."""
    errors: dict[int, float] = {}
    for fold in folds:
        others = [row for number, row in enumerate(rows) if number not in fold]
        factors = Trial(others, own_split).fit()
        off = Trial([rows[number] for number in fold], own_split).off(factors)
        errors |= {number: 100 * (math.exp(each) - 1) for number, each in zip(fold, off, strict=True)}
    return errors


def folds_of_families(rows: Sequence[ProfileRow]) -> list[list[int]]:
    """Returns the rows of each kernel in each run, whose shapes are alike, but for those of `ONE_ROW`."""
    families: dict[tuple[str, str], list[int]] = {}
    for number, row in enumerate(rows):
        if row.kernel not in ONE_ROW:
            families.setdefault((row.kernel, row.run), []).append(number)
    return list(families.values())


def folds_of_runs(rows: Sequence[ProfileRow]) -> list[list[int]]:
    """Returns, for each run, its rows of the kernels of which two runs have three rows or more."""
    count = Counter((row.kernel, row.run) for row in rows)
    enough = Counter(kernel for (kernel, _), rows_of in count.items() if rows_of >= 3)
    runs = sorted({row.run for row in rows})
    folds = [
        [n for n, row in enumerate(rows) if row.run == run and enough[row.kernel] >= 2 and count[row.kernel, run] >= 3]
        for run in runs
    ]
    return [fold for fold in folds if fold]


def main() -> None:
    """Prints the figures and the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--own-split", action="store_true")
    options = parser.parse_args()
    rows = profile_rows(options.file)
    factors = Trial(rows, options.own_split).fit()
    for (names, archs), factor in zip(FITTED, factors, strict=True):
        print(f"{' and '.join(names)} of {' and '.join(archs)}: times {factor:.3g}")
    folds = {"a kernel's rows of one run left out": folds_of_families(rows), "one run left out": folds_of_runs(rows)}
    for name, parts in folds.items():
        errors = left_out(rows, parts, own_split=options.own_split)
        _report(name, list(errors.values()))
        for kernel in sorted({rows[number].kernel for number in errors}):
            _report(f"  {kernel}", [error for number, error in errors.items() if rows[number].kernel == kernel])


def _report(name: str, errors: Sequence[float]) -> None:
    if errors:
        off = np.abs(errors)
        median, high = np.median(off), np.quantile(off, 0.95)
        print(f"{name}: {len(errors)} rows, median {median:.1f} %, p95 {high:.1f} %", flush=True)


if __name__ == "__main__":
    main()
