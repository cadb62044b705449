"""All six collectives, over even and uneven groups, on the boards with two, eight and 32 chips: each chip's result."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from opscope.harness.tests.prepare.mesh.test_mesh import CHANNEL, GLOBAL, SUM

pytestmark = pytest.mark.slow

BOARDS = {"n300": ("2", 2), "t3000": ("2x4", 8), "galaxy": ("4x8", 32)}


def groups(chips: int, width: int) -> str:
    """`replica_groups` of so many chips each; the last is filled with -1 if it is shorter."""
    rows = [list(range(first, min(first + width, chips))) for first in range(0, chips, width)]
    filled = [row + [-1] * (width - len(row)) for row in rows]
    return f"replica_groups = dense<{filled}> : tensor<{len(filled)}x{width}xi64>"


def collectives(chips: int) -> Iterator[tuple[str, str]]:
    """Each op with the shape of its result, from a tensor of 2 w x 6 on each chip, w being the chips of a group."""
    width = max(2, chips // 2)
    even, rows = groups(chips, width), 2 * width
    uneven = groups(chips, 3) if chips > 2 else groups(chips, 1)
    ring = [[chip, chip + 1] for chip in range(chips - 1)]
    yield f'"stablehlo.all_reduce"(%x) <{{{even}, {GLOBAL}}}> {SUM}', f"{rows}x6"
    yield f'"stablehlo.all_reduce"(%x) <{{{uneven}, {GLOBAL}}}> {SUM}', f"{rows}x6"
    yield f'"stablehlo.all_gather"(%x) <{{all_gather_dim = 1 : i64, {even}, {GLOBAL}}}>', f"{rows}x{6 * width}"
    yield f'"stablehlo.reduce_scatter"(%x) <{{scatter_dimension = 0 : i64, {even}, {GLOBAL}}}> {SUM}', "2x6"
    yield (
        '"stablehlo.all_to_all"(%x) <{split_dimension = 0 : i64, concat_dimension = 1 : i64, '
        f"split_count = {width} : i64, {even}, {CHANNEL}}}>",
        f"2x{6 * width}",
    )
    yield (
        f'"stablehlo.collective_permute"(%x) <{{source_target_pairs = dense<{ring}> : tensor<{chips - 1}x2xi64>, '
        f"{CHANNEL}}}>",
        f"{rows}x6",
    )
    yield (
        f'"stablehlo.collective_broadcast"(%x) <{{replica_groups = dense<[[{chips - 1}, 0]]> : tensor<1x2xi64>, '
        f"{CHANNEL}}}>",
        f"{rows}x6",
    )


@pytest.mark.parametrize("board", BOARDS)
def test_each_chip_of_the_board_has_what_the_formula_says(board: str) -> None:
    from opscope.harness.backends.base import Job
    from opscope.harness.backends.reference import Reference
    from opscope.harness.prepare.mlir import load, to_bytecode
    from opscope.harness.prepare.mlir.collective_groups import collective
    from opscope.harness.record.result_options import ResultOptions

    mesh, chips = BOARDS[board]
    rows = 2 * max(2, chips // 2)
    for op, result in collectives(chips):
        bytecode = to_bytecode(
            load(f"""module attributes {{mhlo.num_partitions = {chips} : i32}} {{
          func.func @main(%x: tensor<{rows}x6xf32>) -> tensor<{result}xf32> {{
            %0 = {op} : (tensor<{rows}x6xf32>) -> tensor<{result}xf32>
            return %0 : tensor<{result}xf32>
          }}
        }}""")
        )
        x = list(np.random.default_rng(1).standard_normal((chips, rows, 6), np.float32))
        job = Job("op", bytecode, [], ResultOptions(arch=board, mesh=mesh), several_devices=True)
        job.mesh_inputs = [[array] for array in x]
        for stage in Reference.stages:
            Reference().climb(stage, job)
        for (got,), want in zip(job.mesh_outputs, collective(bytecode).results(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=op)
