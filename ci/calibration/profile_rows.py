"""Prices the operations of profiles of whole models, and says how far each price is from the card.

`python -m ci.calibration.profile_rows FILE.csv` takes cores, grids and program configurations from the rows; with
`--own-split` the simulator splits the work itself, as it does for a record. A price is the kernel's time: without the
launch, which the profiles leave out. Ends with 2 for a file of another form.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ci.calibration.card_profiles import ProfileRow, RowError, profile_rows
from opscope.base.page import Page
from opscope.simulator.timing.card_rates import CARD_RATES
from opscope.simulator.timing.operation import operation_cost


@dataclass(frozen=True)
class Price:
    """What the simulator says of a row."""

    row: ProfileRow
    time_ns: float
    cores: int

    @property
    def ratio(self) -> float:
        """The simulated time, in times of the card."""
        return self.time_ns / self.row.time_ns

    @property
    def error(self) -> float:
        """How far it is from the card, in percent with its sign."""
        return 100 * (self.ratio - 1)


def price(row: ProfileRow, *, own_split: bool) -> Price:
    """Returns the simulator's time of a row."""
    asked = row.asked if own_split else row.split
    cost = operation_cost(row.operation, row.program, row.system, row.system.ttnn, asked=asked)
    kernel = cost.cycles - cost.launch_cycles + CARD_RATES[row.system.arch].start
    return Price(row, kernel / row.system.clock_ghz, cost.started_cores)


def statistics_of(prices: Sequence[Price]) -> dict[str, Any]:
    """Returns rows, median and 95th percentile of absolute errors, and the error of the weighted sum, in percent."""
    errors = [abs(each.error) for each in prices]
    ours, theirs = (
        sum(time(each) * each.row.count for each in prices)
        for time in (lambda each: each.time_ns, lambda each: each.row.time_ns)
    )
    return {
        "rows": len(prices),
        "median": statistics.median(errors),
        "p95": float(np.quantile(errors, 0.95)),
        "sum": 100 * (ours / theirs - 1),
    }


def report(rows: Sequence[ProfileRow], *, own_split: bool) -> dict[str, Any]:
    """Returns every price, and the errors by kind, by run and over all, as JSON."""
    prices = [price(row, own_split=own_split) for row in rows]
    free = [each for each in prices if each.row.chose_grid]
    return {
        "split": "own" if own_split else "card",
        "rows": [
            {
                "run": each.row.run,
                "kernel": each.row.kernel,
                "shapes": each.row.shapes,
                "count": each.row.count,
                "card_ns": each.row.time_ns,
                "simulated_ns": each.time_ns,
                "error": each.error,
                "card_cores": each.row.cores,
                "simulated_cores": each.cores,
                "chose_grid": each.row.chose_grid,
            }
            for each in prices
        ],
        "kinds": _grouped(prices, lambda each: each.row.kernel),
        "runs": _grouped(prices, lambda each: each.row.run),
        "all": statistics_of(prices),
        "same_cores": {"rows": len(free), "same": sum(each.cores == each.row.cores for each in free)},
    }


def _grouped(prices: Sequence[Price], name: Callable[[Price], str]) -> dict[str, dict[str, Any]]:
    names = sorted({name(each) for each in prices})
    return {each: statistics_of([one for one in prices if name(one) == each]) for each in names}


def show(document: dict[str, Any]) -> None:
    """Prints a report as tables."""
    page = Page()
    columns = [("run", "left"), ("kernel", "left"), ("shapes", "left")]
    columns += [(name, "right") for name in ("times", "card ns", "simulated ns", "error", "cores", "simulated")]
    lines = [
        (
            *(each[name] for name in ("run", "kernel", "shapes", "count")),
            f"{each['card_ns']:,.0f}",
            f"{each['simulated_ns']:,.0f}",
            f"{each['error']:+.1f} %",
            each["card_cores"],
            each["simulated_cores"],
        )
        for each in document["rows"]
    ]
    page.table(columns, lines, "Operations", spare=("times", "simulated", "cores"))
    for what, title in (("kinds", "kernel"), ("runs", "run")):
        columns = [(title, "left"), *((name, "right") for name in ("rows", "median", "p95", "sum"))]
        every = [*document[what].items(), ("all", document["all"])]
        page.table(columns, [(name, *_figures(each)) for name, each in every], f"Errors by {title}")
    same = document["same_cores"]
    page.line(f"the card's number of cores: {same['same']} of {same['rows']} rows whose grid no argument names")


def _figures(of: dict[str, Any]) -> tuple[str, ...]:
    return str(of["rows"]), f"{of['median']:.1f} %", f"{of['p95']:.1f} %", f"{of['sum']:+.1f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the errors of a file; returns the exit status."""
    parser = argparse.ArgumentParser(prog="profile_rows", description="Price profiled operations.")
    parser.add_argument("file", type=Path, help="CSV file with the columns of the profiles")
    parser.add_argument("--own-split", action="store_true", help="split the work over cores as for a record")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        document = report(profile_rows(options.file), own_split=options.own_split)
    except RowError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(document))
    else:
        show(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
