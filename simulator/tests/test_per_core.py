from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler.target.binary import write
from opscope.compiler.target.program import (
    Conv2dParams,
    EltwiseParams,
    MatmulParams,
    Params,
    PermuteParams,
    Pool2dParams,
    ReduceParams,
)
from opscope.simulator.api import Device
from opscope.simulator.per_core import rectangles
from opscope.simulator.tests.programs import one_kernel

RANDOM = np.random.default_rng(29)
SAME = Conv2dParams((1, 1), (1, 1, 1, 1), (1, 1))
CASES: list[tuple[str, Params, list[tuple[int, ...]], tuple[int, ...]]] = [
    ("add", EltwiseParams(), [(3, 70, 300), (300,)], (3, 70, 300)),
    ("multiply", EltwiseParams(), [(70, 1), (70, 300)], (70, 300)),
    ("exp", EltwiseParams(), [(2, 2, 40, 65)], (2, 2, 40, 65)),
    ("matmul", MatmulParams(), [(2, 100, 64), (64, 90)], (2, 100, 90)),
    ("matmul", MatmulParams(True, True), [(64, 100), (90, 64)], (100, 90)),
    ("conv2d", SAME, [(2, 9, 9, 8), (3, 3, 8, 80)], (2, 9, 9, 80)),
    ("max_pool2d", Pool2dParams((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)), [(2, 9, 9, 70)], (2, 5, 5, 70)),
    ("sum", ReduceParams((1,)), [(40, 30, 70)], (40, 70)),
    ("max", ReduceParams((2,), True), [(40, 50, 70)], (40, 50, 1)),
    ("permute", PermuteParams((1, 0)), [(40, 50)], (50, 40)),
]


@pytest.mark.parametrize(("kernel", "params", "shapes", "out"), CASES)
def test_cores_make_what_the_whole_makes(
    kernel: str, params: Params, shapes: list[tuple[int, ...]], out: tuple[int, ...]
) -> None:
    arrays = [RANDOM.standard_normal(shape).astype(np.float32) for shape in shapes]
    executable = Device().load(write(one_kernel(kernel, params, [(s, "f32") for s in shapes], (out, "f32"))))
    whole, cut = executable.run(arrays), executable.run(arrays, per_core=True)
    if kernel in ("matmul", "conv2d", "sum"):
        # The host's GEMM sums in another order for another shape.
        np.testing.assert_allclose(cut.outputs[0], whole.outputs[0], rtol=1e-5, atol=1e-5)
    else:
        assert np.array_equal(cut.outputs[0], whole.outputs[0])
    assert cut.profile == whole.profile


def test_rectangles_cover_everything_once() -> None:
    covered = np.zeros((3, 300, 1000), int)
    parts = rectangles(covered.shape, (1, 2), (8, 8))
    for part in parts:
        covered[part] += 1
        assert part[1].start % 32 == part[2].start % 32 == 0
    assert (covered == 1).all()
    assert len(parts) == 5 * 8
