"""Where cores and DRAM lie on a chip's NoC, as (column, row) of its routers.

Sources: tt-budabackend's device descriptors (functional_workers, dram, grid) and
tt-isa-documentation (NoC coordinates).
"""

from __future__ import annotations

from dataclasses import dataclass

from opscope.compiler.target.system_desc import SystemDesc

Router = tuple[int, int]
UPPER_ROWS, LOWER_ROWS = (1, 2, 3, 4, 5), (7, 8, 9, 10, 11)


@dataclass(frozen=True)
class Geometry:
    """A chip's routers."""

    size: tuple[int, int]
    """Columns and rows of each torus."""
    columns: tuple[int, ...]
    rows: tuple[int, ...]
    """Of cores that compute, in order."""
    dram: tuple[Router, ...]
    """Ports of the DRAM channels."""

    def core(self, row: int, col: int) -> Router:
        """Returns the router of a core by its row and column among those that compute."""
        return self.columns[col % len(self.columns)], self.rows[row % len(self.rows)]

    def channel(self, number: int, channels: int) -> Router:
        """Returns the router of one of `channels` channels; a profile may count two ports as one channel."""
        return self.dram[number % channels * len(self.dram) // channels]


GEOMETRIES = {
    "grayskull": Geometry(
        (13, 12),
        tuple(range(1, 13)),
        (*UPPER_ROWS, *LOWER_ROWS),
        ((1, 0), (1, 6), (4, 0), (4, 6), (7, 0), (7, 6), (10, 0), (10, 6)),
    ),
    "wormhole_b0": Geometry(
        (10, 12),
        (1, 2, 3, 4, 6, 7, 8, 9),
        (*UPPER_ROWS, *LOWER_ROWS),
        ((0, 0), (0, 1), (0, 5), (0, 6), (5, 0), (5, 1), (5, 2), (5, 9), (5, 3), (5, 4), (5, 5), (5, 6)),
    ),
    "blackhole": Geometry(
        (17, 12),
        (1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16),
        tuple(range(2, 12)),
        ((0, 0), (0, 2), (0, 9), (0, 5), (9, 0), (9, 2), (9, 9), (9, 5)),
    ),
}


def geometry_of(system: SystemDesc, rows: int) -> Geometry:
    """Returns a board's geometry with `rows` rows of cores: those that are harvested are left out if enough remain."""
    whole = GEOMETRIES[system.arch]
    left = tuple(row for number, row in enumerate(whole.rows) if number not in system.harvested_rows)
    return Geometry(whole.size, whole.columns, left if len(left) >= rows else whole.rows, whole.dram)
