"""What tt-metal measured on cards: a core's transfers, and matrix products of a whole chip."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ci.calibration.silicon_rows import SILICON

SEED = 16
PRIMITIVES = {
    "l1_read_one_from_one": "l1_read",
    "l1_write_one_to_one": "l1_write",
    "dram_read": "dram_read",
    "dram_write": "dram_write",
    "multicast_5x5_no_loopback": "multicast",
}
FORMATS = {"bf16": "Float16_b", "bfp8_b": "Bfp8_b", "bfp4_b": "Bfp4_b"}
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class TransferRow:
    """Transactions of one core."""

    arch: str
    primitive: str
    """A field of `Movement`."""
    count: int
    size: int
    """Bytes of each."""
    cycles: float
    receivers: int = 0
    """Cores that a multicast reaches; 0: it is none."""
    linked: bool = False
    """Whether a multicast keeps its way for the next."""
    loopback: bool = False
    """Whether it reaches its sender too."""


@dataclass(frozen=True)
class ProductRow:
    """A matrix product, with trace, from the end of one to the end of the next."""

    board: str
    tuned: bool
    """Whether the left operand and the result lie in L1 in blocks; else tt-metal chose everything."""
    in_l1: bool
    data_format: str
    fidelity: str
    shape: tuple[int, int, int]
    """M, K and N in elements."""
    grid: tuple[int, int]
    """Rows and columns of cores."""
    time_ns: float


def transfer_rows() -> Iterator[TransferRow]:
    """Yields every row of `noc_dram_latency.csv` and of `multicasts.csv`, sorted so that neighbours are alike."""
    rows = list(_multicasts())
    with (SILICON / "noc_dram_latency.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            primitive = PRIMITIVES[row["primitive"].split(" ")[0]]
            receivers = 24 if primitive == "multicast" else 0
            count, size, cycles = int(row["transactions"]), int(row["bytes_each"]), float(row["cycles"])
            rows.append(TransferRow(row["arch"], primitive, count, size, cycles, receivers))
    yield from sorted(
        rows, key=lambda row: (row.arch, row.primitive, row.loopback, row.receivers, row.linked, row.count, row.size)
    )


def _multicasts() -> Iterator[TransferRow]:
    """The cycles of tt-metal's tables "One to All Multicast [Linked] <grid> Packet Sizes with[out] Loopback", which
    `perf_plots` of its data movement tests have: a column each. Wormhole's of a whole chip do not say how many cores
    it had, and those of 5x5 are in `noc_dram_latency.csv`.
    """
    with Path(__file__).with_name("multicasts.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name, cycles in list(row.items())[3:]:
                grid, *how = name.split("_")
                high, wide = map(int, grid.split("x"))
                loopback = "loopback" in how
                count, size = int(row["transactions"]), int(row["bytes_each"])
                receivers = high * wide - (not loopback)
                if cycles:
                    yield TransferRow(
                        row["arch"], "multicast", count, size, float(cycles), receivers, "linked" in how, loopback
                    )


def product_rows() -> Iterator[ProductRow]:
    """Yields every row of `gemm_flops.csv`. The column of storage says up to which size a tuned one lies in L1."""
    with (SILICON / "gemm_flops.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            columns, _, lines = row["grid"].partition("x")
            shape = (int(row["M"]), int(row["K"]), int(row["N"]))
            tuned = row["mode"] == "tuned"
            yield ProductRow(
                row["device"],
                tuned,
                tuned and shape not in _IN_DRAM[row["dtype"]],
                FORMATS[row["dtype"]],
                row["fidelity"],
                shape,
                (int(lines), int(columns)),
                float(row["time_ns"]),
            )


def tuned_rows_of_p150() -> Iterator[ProductRow]:
    """Yields the tuned products of p150 on 13x10 cores, with trace: tech_reports/GEMM_FLOPS, nanoseconds. Where a time
    says DRAM everything lies there, else the left operand and the result in L1.
    """
    with Path(__file__).with_name("p150_tuned_products.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            shape = (int(row["M"]), int(row["K"]), int(row["N"]))
            for how, cell in list(row.items())[3:]:
                dtype, fidelity = how.split(" ")
                if cell:
                    time, _, place = cell.partition(" ")
                    in_l1 = place != "DRAM"
                    yield ProductRow("p150", True, in_l1, FORMATS[dtype], fidelity, shape, (10, 13), float(time))


def _cubes(*sides: int) -> set[tuple[int, int, int]]:
    return {(side, side, side) for side in sides}


_ODD = (3328, 2560, 2560)
_IN_DRAM = {
    "bf16": _cubes(4096, 8192, 16384) | {(3072, 3072, 4096), (3072, 4096, 4096), _ODD},
    "bfp8_b": _cubes(4096, 8192, 16384) | {_ODD},
    "bfp4_b": _cubes(8192, 16384) | {_ODD},
}
"""Tuned rows with everything in DRAM, as the storage column says in words."""


def halves(rows: Sequence[Measured]) -> tuple[list[Measured], list[Measured]]:
    """Returns the rows to fit to and those to report: one of each two neighbours, as a seed decides."""
    chance = random.Random(SEED)
    fitted: list[Measured] = []
    reported: list[Measured] = []
    for start in range(0, len(rows), 2):
        chosen = chance.randrange(2)
        for number, row in enumerate(rows[start : start + 2]):
            (fitted if number == chosen else reported).append(row)
    return fitted, reported
