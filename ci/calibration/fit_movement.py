"""Fits the constants of `simulator/timing/movement.py`; reports the rows left out.

`python -m ci.calibration.fit_movement` prints, for each arch and primitive, the constants and the mean and largest
error of the other half of its rows, and each arch's mean. To multicasts that reach their sender too nothing is fitted:
they are reported apart.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from ci.calibration.card_rows import TransferRow, halves, transfer_rows
from opscope.simulator.timing.movement import MOVEMENT, Multicasts, Transfers

SMALL = 0.02
"""Error up to which squares count."""
WHOLE = frozenset({"packet"})


Model = Transfers | Multicasts


def simulated(model: Model, row: TransferRow) -> float:
    """Returns the cycles that a model gives a row."""
    transfers = model.to(row.receivers, linked=row.linked) if isinstance(model, Multicasts) else model
    return transfers.cycles(row.count, row.size)


def error(model: Model, row: TransferRow) -> float:
    """Returns the absolute error of a row, in percent."""
    return 100 * abs(simulated(model, row) / row.cycles - 1)


def parts() -> Iterator[tuple[str, str, Model, list[TransferRow], list[TransferRow]]]:
    """Yields arch, primitive, its model, the rows to fit to and those to report."""
    rows = (row for row in transfer_rows() if not row.loopback)
    for (arch, primitive), own in groupby(rows, key=lambda row: (row.arch, row.primitive)):
        yield arch, primitive, getattr(MOVEMENT[arch], primitive), *halves(list(own))


def errors_with_loopback() -> list[float]:
    """Returns the errors of multicasts that reach their sender too, of Blackhole."""
    return [error(MOVEMENT[row.arch].multicast, row) for row in transfer_rows() if row.loopback]


def _numbers(model: Any) -> list[tuple[str, ...]]:
    """Paths of the numbers of a model that are fitted; zero says that a cause does not apply."""
    paths: list[tuple[str, ...]] = []
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        if dataclasses.is_dataclass(value):
            paths += [(field.name, *path) for path in _numbers(value)]
        elif field.name not in WHOLE and value:
            paths.append((field.name,))
    return paths


def _get(model: Any, path: Sequence[str]) -> float:
    for name in path:
        model = getattr(model, name)
    return float(model)


def _with(model: Any, values: Mapping[tuple[str, ...], float]) -> Any:
    changed: dict[str, Any] = {}
    for name in {path[0] for path in values}:
        inner = {path[1:]: value for path, value in values.items() if path[0] == name}
        changed[name] = inner[()] if () in inner else _with(getattr(model, name), inner)
    return dataclasses.replace(model, **changed)


def fit(model: Any, rows: Sequence[TransferRow]) -> Any:
    """Returns the model with the constants of the least error, from those that are there."""
    paths = _numbers(model)
    start = np.array([_get(model, path) for path in paths])

    def off(values: np.ndarray) -> list[float]:
        tried = _with(model, dict(zip(paths, map(float, values), strict=True)))
        return [math.log(simulated(tried, row) / row.cycles) for row in rows]

    solution = least_squares(off, start, bounds=(0, np.inf), x_scale=start, loss="soft_l1", f_scale=SMALL)
    return _with(model, dict(zip(paths, map(float, solution.x), strict=True)))


def main() -> None:
    """Prints constants and errors."""
    means: dict[str, list[float]] = {}
    for arch, primitive, model, fitted, reported in parts():
        off = [error(model, row) for row in reported]
        means.setdefault(arch, []).extend(off)
        print(f"{arch} {primitive}: {len(off)} rows, mean {np.mean(off):.1f} %, largest {max(off):.1f} %")
        print(f"  {fit(model, fitted)}")
    off = errors_with_loopback()
    print(f"multicasts with loopback: {len(off)} rows, mean {np.mean(off):.1f} %, largest {max(off):.1f} %")
    for arch, off in means.items():
        print(f"{arch}: mean {np.mean(off):.2f} % of {len(off)} rows")


if __name__ == "__main__":
    main()
