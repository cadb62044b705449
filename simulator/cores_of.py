"""Which cores an operation runs on, as (row, column) of the grid.

A plan names them. A sharded result lies on those of its grid. A matrix product that fills a rectangle of tiles takes
the rectangle that `timing/` counts; everything else takes cores row by row, as tt-metal deals its work
(`num_cores_to_corerangeset`).
"""

from __future__ import annotations

from opscope.compiler.target.allocation import tile_matrix
from opscope.compiler.target.plan import PlacedOp
from opscope.compiler.target.program import Conv2dParams, Conv3dParams, MatmulParams, Operation, TensorDesc
from opscope.compiler.target.system_desc import Profile

Core = tuple[int, int]


def cores_of(
    op: Operation, output: TensorDesc | None, count: int, profile: Profile, placed: PlacedOp | None = None
) -> frozenset[Core]:
    """The cores of an operation of which `count` cores work; empty if none does, as for the host's work."""
    if count == 0:
        return frozenset()
    if placed is not None:
        return frozenset(placed.cores())
    rows, columns = profile.grid
    if output is not None and output.buffer_type == "l1" and output.memory_layout != "interleaved":
        down, across = output.grid
        if down <= rows and across <= columns:
            return frozenset((r, c) for r in range(down) for c in range(across))
    elif output is not None and isinstance(op.params, MatmulParams | Conv2dParams | Conv3dParams):
        m, n = tile_matrix(output.shape)
        if min(rows, m) * min(columns, n) == count:
            return frozenset((r, c) for r in range(min(rows, m)) for c in range(min(columns, n)))
    return frozenset(divmod(number, columns) for number in range(min(count, rows * columns)))


def name_of(core: Core) -> str:
    """`3-4`, the core of row 3 and column 4."""
    return f"{core[0]}-{core[1]}"
