"""Fits the constants of `simulator/timing/product_time.py` to matrix products of n150, three of Blackhole's to p150's;
reports the rows left out.

`python -m ci.calibration.fit_products`. Each row is an operation with the row's layouts, on the row's grid, costed
without being run: out of the box in DRAM, tuned with the left operand and the result in blocks in L1 where the row says
so. The choice of blocks of a tuned row in DRAM is the automatic one. Rows out of the box are also compiled, on the
row's grid, with its format and fidelity: with the card's Dst of 16 bits they must take what the operations take; what
they take with the 32 bits that the compiler chooses for products is printed last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import least_squares

from ci.calibration.card_rows import ProductRow, halves, product_rows, tuned_rows_of_p150
from opscope.compiler import api
from opscope.compiler.target.binary import read
from opscope.compiler.target.program import MatmulParams, Numerics, Operation, Program, TensorDesc
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.timing.card_rates import PRODUCTS, ProductConstants
from opscope.simulator.timing.operation import operation_cost
from opscope.simulator.timing.work_split import Asked

SMALL = 0.05
"""Error up to which squares count."""
SCALE = {"overhead": 1.0, "unpacked": 40.0, "subblock": 100.0, "written": 0.5, "awaited": 0.5}


def time_ns(row: ProductRow, constants: ProductConstants | None = None) -> float:
    """Returns what the simulator says of a row, with its own constants or others."""
    m, k, n = row.shape
    system = load_board(row.board)
    system = replace(system, ttnn=replace(system.ttnn, grid=row.grid))

    def tensor(shape: tuple[int, int], *, blocks: bool = False) -> TensorDesc:
        made = TensorDesc(shape, "bf16", row.data_format, "tile", "l1" if blocks else "dram")
        return replace(made, memory_layout="block_sharded", grid=row.grid) if blocks else made

    tensors = (tensor((m, k), blocks=row.in_l1), tensor((k, n)), tensor((m, n), blocks=row.in_l1))
    op = Operation("matmul", (0, 1), (2,), MatmulParams(), Numerics(row.fidelity, dst_format="Float16_b"))
    program = Program("main", tensors, (0, 1), (2,), (op,))
    return operation_cost(op, program, system, system.ttnn, asked=Asked(constants=constants)).cycles / system.clock_ghz


def compiled_ns(row: ProductRow, dst_format: str) -> float:
    """Returns what the simulator says of a row that is compiled, with all its operations, and not run."""
    m, k, n = row.shape
    types = f"(tensor<{m}x{k}xbf16>, tensor<{k}x{n}xbf16>) -> tensor<{m}x{n}xbf16>"
    module = f"""func.func @main(%left: tensor<{m}x{k}xbf16>, %right: tensor<{k}x{n}xbf16>) -> tensor<{m}x{n}xbf16> {{
      %0 = stablehlo.dot_general %left, %right, contracting_dims = [1] x [0] : {types}
      return %0 : tensor<{m}x{n}xbf16>
    }}"""
    system = load_board(row.board)
    system = replace(system, ttnn=replace(system.ttnn, grid=row.grid))
    options = api.CompileOptions(data_format=row.data_format, math_fidelity=row.fidelity)
    (program,) = read(api.compile(module, system, options)).programs
    ops = (replace(op, numerics=replace(op.numerics, dst_format=dst_format)) for op in program.operations)
    return sum(operation_cost(op, program, system, system.ttnn).cycles for op in ops) / system.clock_ghz


def errors(rows: Sequence[ProductRow], time_of: Callable[[ProductRow], float] = time_ns) -> np.ndarray:
    """Returns the absolute error of each row, in percent."""
    return np.array([100 * abs(time_of(row) / row.time_ns - 1) for row in rows])


def fit(rows: Sequence[ProductRow], start: ProductConstants, names: Sequence[str]) -> ProductConstants:
    """Returns the constants with the least error: those of `start`, but the named ones fitted from `SCALE`."""
    scale = np.array([SCALE[name] for name in names])

    def constants(values: np.ndarray) -> ProductConstants:
        return replace(start, **dict(zip(names, map(float, values), strict=True)))

    def off(values: np.ndarray) -> list[float]:
        return [math.log(time_ns(row, constants(values)) / row.time_ns) for row in rows]

    solution = least_squares(
        off, scale, bounds=(0, np.inf), x_scale=scale, loss="soft_l1", f_scale=SMALL, diff_step=1e-3
    )
    return constants(solution.x)


def main() -> None:
    """Prints the constants and the errors."""
    rows = list(product_rows())
    fitted, reported = halves([row for row in rows if row.board == "n150"])
    print(n150 := fit(fitted, PRODUCTS["wormhole_b0"], list(SCALE)))
    of_p150, p150 = halves([row for row in rows if row.board == "p150"])
    blackhole = replace(PRODUCTS["blackhole"], unpacked=2 * n150.unpacked)
    print(fit(of_p150, blackhole, ("subblock", "written", "awaited")))
    boxed = [row for row in reported if not row.tuned]
    parts: Sequence[tuple[str, list[ProductRow]]] = (
        ("n150, rows not fitted to", reported),
        ("of these out of the box", boxed),
        ("of these tuned", [r for r in reported if r.tuned]),
        ("p150, rows not fitted to", p150),
        ("p150, tuned, none fitted to", list(tuned_rows_of_p150())),
    )
    for name, part in parts:
        _report(name, errors(part))
    for dst_format in ("Float16_b", "Float32"):
        for board, part in (("n150", boxed), ("p150", p150)):
            name = f"{board} out of the box, compiled, Dst {dst_format}"
            _report(name, errors(part, partial(compiled_ns, dst_format=dst_format)))


def _report(name: str, off: np.ndarray) -> None:
    print(f"{name}: {len(off)} rows, median {np.median(off):.1f} %, p95 {np.percentile(off, 95):.1f} %", flush=True)


if __name__ == "__main__":
    main()
