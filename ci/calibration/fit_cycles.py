"""Fits the constants of `simulator/timing` to measured rows: least squares of the logarithm of the ratio.

`python -m ci.calibration.fit_cycles ARCH` prints the tables of `simulator/timing/constants_ARCH.py`, fitted to the half
of the rows that `bench_cycles` does not report.
"""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from ci.calibration.silicon_rows import Row, halves, rows
from opscope.simulator.timing import kernel_cycles as formulas
from opscope.simulator.timing.block_work import BlockWork
from opscope.simulator.timing.constants import Constants, DataPath, Kernel, Product, Reduce, ReduceZ, Sparse

SEED = 16
STARTS = 4
"""Starting points of each fit; the best result counts."""
SAME = {"subtract": "add"}
"""Kernel -> the one that it costs as much as: the matrix unit starts an ELWADD or an ELWSUB each cycle (MatrixUnit.md).
Rows of both decide more than rows of each."""
ALIKE = (("quantization", "requantization"),)
"""Kernels that begin an input and a micro block alike, and differ in the math of a tile: both scale and leave Int8. Of
their fitted rows, each left out in turn, the others then say more (0.9 % off, 1.2 % where each kernel has its own).
With dequantization, which leaves Float32, they would say less (2 to 5 % off).
"""
ENOUGH = 2
"""How many times smaller the error has to become for `Kernel.busy` to be kept."""
BARE = frozenset({"typecast"})
"""Kernels whose math takes fewer cycles than the data, unless in 32 bits: a copy moves 16 rows of a tile at once."""
ROUNDS = 4
"""Rounds in which the math of each kernel and the path of data that they share are fitted in turn."""
SMALL = 0.05
"""Error up to which squares count; above, an error counts by its size, so that a few odd rows decide nothing."""
PULL = 0.002
"""Weight of staying near the starting point, which decides only what the rows leave open."""


@dataclass(frozen=True)
class Guess:
    """Where a fit starts, and the range that it stays in."""

    values: tuple[float, ...]
    low: float = 0.0
    high: float = 6000.0
    fixed: tuple[int, ...] = field(default=())


PRODUCT = Guess((16, 4, 4, 60, 200, 34, 60, 20, 200, 40, 50, 100, 70, 70))
DEPTHWISE = Guess((79, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0), fixed=(1, 2, 4, 5, 6, 7, 8, 9, 10, 12, 13))
SPARSE = Guess((150, 20, 100, 12, 4, 6, 43, 8, 20, 100))
REDUCE = Guess((150, 10, 60, 60, 60))
REDUCE_Z = Guess((100, 200, 36, 90, 10, 320, 160))


def solve(
    predicted: Callable[[np.ndarray], list[float]], measured: Sequence[float], guess: Guess, starts: int = STARTS
) -> list[float]:
    """Returns the parameters with the least error."""
    return solved(predicted, measured, guess, starts)[0]


def solved(
    predicted: Callable[[np.ndarray], list[float]], measured: Sequence[float], guess: Guess, starts: int = STARTS
) -> tuple[list[float], float]:
    """Returns the parameters with the least error, and the error with what departing from the guess costs."""
    start = np.array(guess.values, float)
    free = [i for i in range(len(start)) if i not in guess.fixed]
    scale = np.maximum(np.abs(start[free]), 5)
    truth = np.log(measured)
    chance = np.random.default_rng(SEED)

    def whole(part: np.ndarray) -> np.ndarray:
        values = start.copy()
        values[free] = part
        return values

    def errors(part: np.ndarray) -> np.ndarray:
        got = np.log(np.maximum(predicted(whole(part)), 1.0)) - truth
        return np.concatenate([got, PULL * (part - start[free]) / scale])

    best: Any = None
    for number in range(starts):
        first = start[free] * (chance.uniform(0.5, 1.6, len(free)) if number else 1)
        first = np.clip(first, guess.low + 1e-3, guess.high - 1e-3)
        fit = least_squares(
            errors, first, bounds=(guess.low, guess.high), loss="soft_l1", f_scale=SMALL, x_scale=scale, max_nfev=200
        )
        if best is None or fit.cost < best.cost:
            best = fit
    return [float(value) for value in whole(best.x)], float(best.cost)


def fit(to: Sequence[Row]) -> Constants:
    """Returns the constants of the arch that all of the rows are of."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in to:
        dense = row.kernel in ("matmul", "depthwise", "sparse_matmul", "reduce_z")
        own = dense or row.kernel in formulas.FLAT
        name = row.kernel if own else f"{row.work.operands}"
        groups.setdefault((name, f"{row.width} l1_acc" if row.l1_acc else row.width), []).append(row)
    constants = Constants({}, {}, {}, {}, {}, {})
    tables: Mapping[str, Any] = asdict(constants)
    for (name, width), part in sorted(groups.items()):
        match name:
            case "matmul":
                tables["products"][width] = _alone(part, PRODUCT, Product, formulas.product)
            case "depthwise":
                tables["products"][name] = _alone(part, DEPTHWISE, Product, formulas.product)
            case "sparse_matmul":
                tables["sparse"][width] = _alone(
                    part, SPARSE, Sparse, lambda w, c: formulas.sparse_product(w, w.sparse, c)
                )
            case "reduce_z":
                tables["reduce_z"][width] = _alone(part, REDUCE_Z, _reduce_z, formulas.reduce_z)
            case "reduce r" | "reduce c":
                tables["reduce"][f"{name}/{width}"] = _alone(
                    part,
                    REDUCE,
                    Reduce,
                    lambda w, c, by_rows=name == "reduce r": formulas.reduce_flat(w, c, by_rows=by_rows),
                )
            case _:
                data, kernels = _together(part)
                tables["data"][f"{name}/{width}"] = data
                for kernel, entry in kernels.items():
                    tables["kernels"].setdefault(kernel, {})[width] = entry
    return Constants(**tables)


def _alone(part: Sequence[Row], guess: Guess, kind: Callable[..., Any], formula: Callable[..., float]) -> Any:
    works: list[BlockWork] = [row.work for row in part]
    values = solve(lambda p: [formula(w, kind(*p)) for w in works], [row.cycles for row in part], guess)
    return kind(*(round(value, 3) for value in values))


def _reduce_z(start: float, ublock: float, tile: float, moved: float, *further: float) -> ReduceZ:
    return ReduceZ(start, DataPath(ublock, tile, moved), *further)


def _together(part: Sequence[Row]) -> tuple[DataPath, dict[str, Kernel]]:
    """Fits ops of as many operands of one width: each its own math, all the same path of data."""
    by_kernel: dict[str, list[Row]] = {}
    for row in part:
        by_kernel.setdefault(SAME.get(row.kernel, row.kernel), []).append(row)
    names = sorted(by_kernel)
    bare = BARE.intersection(names) if part[0].width != "32" else frozenset()
    start = [220.0, 36.0, 90.0 if part[0].work.bits < 16 else 150.0]

    def per_tile(name: str) -> list[float]:
        return [row.cycles / row.work.ublocks / row.work.ublock_tiles for row in by_kernel[name]]

    for name in names:
        start += [40.0, 0.0, 0.0, 0.0] if name in bare else [40.0, 20.0, float(np.quantile(per_tile(name), 0.25)), 0.0]
    place = {name: 3 + 4 * i for i, name in enumerate(names)}

    def fit_kernel(name: str, starts: int) -> None:
        data, own = DataPath(*start[:3]), by_kernel[name]
        at = slice(place[name], place[name] + 4)
        fixed = (1, 2, 3) if name in bare else ()
        least, without = math.inf, start[at]
        for busy in (0.0, min(per_tile(name)))[: 1 if name in bare else 2]:
            guess = Guess((*without[:3], busy), -300, fixed=fixed or (() if busy else (3,)))
            values, left = solved(
                lambda p: [formulas.eltwise(row.work, data, Kernel(*p)) for row in own],
                [row.cycles for row in own],
                guess,
                starts,
            )
            if left < least / ENOUGH:
                start[at], least = values, left

    def fit_data() -> None:
        places = [place[SAME.get(row.kernel, row.kernel)] for row in part]
        kernels = [Kernel(*start[at : at + 4]) for at in places]
        start[:3] = solve(
            lambda p: [formulas.eltwise(row.work, DataPath(*p), k) for row, k in zip(part, kernels, strict=True)],
            [row.cycles for row in part],
            Guess(tuple(start[:3])),
            2,
        )

    fastest = min(names, key=lambda name: start[place[name] + 2])
    start[:3] = solve(
        lambda p: [formulas.eltwise(row.work, DataPath(*p[:3]), Kernel(p[3], 0, 0)) for row in by_kernel[fastest]],
        [row.cycles for row in by_kernel[fastest]],
        Guess((*start[:3], 50)),
    )[:3]
    for _ in range(ROUNDS):
        for name in names:
            fit_kernel(name, 2)
        fit_data()

    def fit_alike(alike: Sequence[str]) -> None:
        """Fits one start and one micro block for all, and a tile for each."""
        own = [row for row in part if row.kernel in alike]
        tiles = [start[place[name] + 2] for name in alike]

        def kernels_of(p: Sequence[float]) -> dict[str, Kernel]:
            return {name: Kernel(p[0], p[1], tile) for name, tile in zip(alike, p[2:], strict=True)}

        def predicted(p: np.ndarray) -> list[float]:
            kernels = kernels_of([float(value) for value in p])
            return [formulas.eltwise(row.work, DataPath(*start[:3]), kernels[row.kernel]) for row in own]

        values = solve(predicted, [row.cycles for row in own], Guess((40.0, 20.0, *tiles), -300))
        for name, tile in zip(alike, values[2:], strict=True):
            start[place[name] : place[name] + 4] = [*values[:2], tile, 0.0]

    for name in names:
        fit_kernel(name, STARTS)
    for alike in ALIKE:
        if place.keys() >= set(alike):
            fit_alike(alike)
    data = DataPath(*(round(value, 2) for value in start[:3]))
    kernels = {name: Kernel(*(round(value, 2) for value in start[at : at + 4])) for name, at in place.items()}
    return data, {row.kernel: kernels[SAME.get(row.kernel, row.kernel)] for row in part}


def printed(constants: Constants) -> str:
    """Returns the tables as Python."""
    lines: list[str] = []
    for name in ("data", "kernels", "products", "sparse", "reduce", "reduce_z"):
        lines.append(f"{name}={{")
        for key, entry in sorted(getattr(constants, name).items()):
            if name == "kernels":
                inner = ", ".join(f'"{width}": {_call(kernel)}' for width, kernel in sorted(entry.items()))
                lines.append(f'        "{key}": {{{inner}}},')
            else:
                lines.append(f'        "{key}": {_call(entry)},')
        lines.append("},")
    return "\n".join(
        part for line in lines for part in textwrap.wrap(line, 116, initial_indent="    ", subsequent_indent=" " * 8)
    )


def _call(entry: Any) -> str:
    values = ", ".join(
        _call(value) if is_dataclass(value) else f"{value:g}"
        for each in fields(entry)
        if (value := getattr(entry, each.name)) != each.default
    )
    return f"{type(entry).__name__}({values})"


def error(row: Row, cycles: float) -> float:
    """Returns by how much cycles miss the measured ones, as a share of these."""
    return abs(cycles / row.cycles - 1)


if __name__ == "__main__":
    fitted, _ = halves(list(rows(sys.argv[1])), SEED)
    print(printed(fit(fitted)))
    assert all(math.isfinite(row.cycles) for row in fitted)
