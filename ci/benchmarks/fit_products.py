"""Fits the constants of `simulator/timing/product_time.py` to n150's matrix products; reports the rows left out, and
p150's.

`python -m ci.benchmarks.fit_products`. Each row is an operation with the row's layouts, on the row's grid, costed
without being run: out of the box in DRAM, tuned with the left operand and the result in blocks in L1 where the row says
so. The choice of blocks of a tuned row in DRAM is the automatic one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, replace
from unittest.mock import patch

import numpy as np
from scipy.optimize import least_squares

from ci.benchmarks.card_rows import ProductRow, halves, product_rows
from opscope.compiler.target.program import MatmulParams, Numerics, Operation, Program, TensorDesc
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.timing.operation import operation_cost
from opscope.simulator.timing.product_time import PRODUCTS, ProductConstants

SMALL = 0.05
"""Error up to which squares count."""


def time_ns(row: ProductRow) -> float:
    """Returns what the simulator says of a row."""
    m, k, n = row.shape
    system = load_board(row.board)
    system = replace(system, ttnn=replace(system.ttnn, grid=row.grid))

    def tensor(shape: tuple[int, int], *, blocks: bool = False) -> TensorDesc:
        made = TensorDesc(shape, "bf16", row.data_format, "tile", "l1" if blocks else "dram")
        return replace(made, memory_layout="block_sharded", grid=row.grid) if blocks else made

    tensors = (tensor((m, k), blocks=row.in_l1), tensor((k, n)), tensor((m, n), blocks=row.in_l1))
    op = Operation("matmul", (0, 1), (2,), MatmulParams(), Numerics(row.fidelity, dst_format="Float16_b"))
    program = Program("main", tensors, (0, 1), (2,), (op,))
    return operation_cost(op, program, system, system.ttnn).cycles / system.clock_ghz


def errors(rows: Sequence[ProductRow]) -> np.ndarray:
    """Returns the absolute error of each row, in percent."""
    return np.array([100 * abs(time_ns(row) / row.time_ns - 1) for row in rows])


def fit(rows: Sequence[ProductRow]) -> ProductConstants:
    """Returns the constants with the least error, from those that are there."""
    start = np.array(astuple(PRODUCTS["wormhole_b0"]))

    def off(values: np.ndarray) -> list[float]:
        with patch.dict(PRODUCTS, {"wormhole_b0": ProductConstants(*values)}):  # type: ignore[arg-type]
            return [math.log(time_ns(row) / row.time_ns) for row in rows]

    solution = least_squares(
        off, start, bounds=(0, np.inf), x_scale=start, loss="soft_l1", f_scale=SMALL, diff_step=1e-3
    )
    return ProductConstants(*map(float, solution.x))


def main() -> None:
    """Prints the constants and the errors."""
    rows = list(product_rows())
    fitted, reported = halves([row for row in rows if row.board == "n150"])
    print(fit(fitted))
    p150 = [row for row in rows if row.board == "p150"]
    parts: Sequence[tuple[str, list[ProductRow]]] = (
        ("n150, rows not fitted to", reported), ("of these out of the box", [r for r in reported if not r.tuned]),
        ("of these tuned", [r for r in reported if r.tuned]), ("p150, none fitted to", p150),
    )  # fmt: skip
    for name, part in parts:
        off = errors(part)
        print(f"{name}: {len(part)} rows, median {np.median(off):.1f} %, p95 {np.percentile(off, 95):.1f} %")


if __name__ == "__main__":
    main()
