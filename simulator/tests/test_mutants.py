from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler.target.binary import write
from opscope.compiler.target.program import (
    BroadcastParams,
    CholeskyParams,
    ConcatParams,
    Conv2dParams,
    Conv3dParams,
    EltwiseParams,
    GatherParams,
    MatmulParams,
    PadParams,
    Params,
    PermuteParams,
    Pool2dParams,
    ReduceParams,
    ReshapeParams,
    ScatterParams,
    SliceParams,
    TriangularSolveParams,
)
from opscope.simulator.api import Device, DeviceError
from opscope.simulator.kernels import KERNELS
from opscope.simulator.tests.mutants import FINE, NO_MUTANTS, changes_result, mutations_for
from opscope.simulator.tests.programs import one_kernel, run_kernel

RANDOM = np.random.default_rng(23)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


NONE = EltwiseParams()
SAME_3X3 = Conv2dParams((1, 1), (1, 1, 1, 1), (1, 1))
ROW_INDEX = np.repeat(np.arange(40, dtype=np.int32), 40).reshape(40, 40)
SCATTER = ScatterParams((1,), (0,), (), (), (0,), 1, "add")
SQUARE = normal(40, 40)
DIAGONAL = SQUARE / 9 + 2 * np.eye(40, dtype=np.float32)
SAME_3X3X3 = Conv3dParams((1, 1, 1), (1,) * 6, (1, 1, 1))
INDICES = RANDOM.integers(0, 30, (40, 1)).astype(np.int32)
CASES: dict[str, tuple[Params, list[np.ndarray], tuple[int, ...], str]] = {
    "matmul": (MatmulParams(), [normal(48, 64), normal(64, 40)], (48, 40), "f32"),
    "conv2d": (SAME_3X3, [normal(1, 20, 20, 4), normal(3, 3, 4, 8)], (1, 20, 20, 8), "f32"),
    "max_pool2d": (Pool2dParams((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)), [normal(1, 16, 16, 8)], (1, 8, 8, 8), "f32"),
    "sum": (ReduceParams((2,)), [normal(4, 40, 40).astype(ml_dtypes.bfloat16)], (4, 40), "bf16"),
    "max": (ReduceParams((0, 1)), [normal(4, 40, 40)], (40,), "f32"),
    "argmax": (ReduceParams((1,)), [normal(40, 64)], (40,), "i32"),
    "add": (NONE, [normal(40, 50), normal(50)], (40, 50), "f32"),
    "subtract": (NONE, [normal(40, 50), normal(40, 1)], (40, 50), "f32"),
    "multiply": (NONE, [normal(40, 50), normal(40, 50)], (40, 50), "f32"),
    "divide": (NONE, [normal(40, 50), normal(40, 50)], (40, 50), "f32"),
    "maximum": (NONE, [normal(40, 50), normal(1)], (40, 50), "f32"),
    "exp": (NONE, [normal(40, 50)], (40, 50), "f32"),
    "tanh": (NONE, [normal(40, 50)], (40, 50), "f32"),
    "rsqrt": (NONE, [np.abs(normal(40, 50)) + 0.1], (40, 50), "f32"),
    "erf": (NONE, [normal(40, 50)], (40, 50), "f32"),
    "where": (NONE, [normal(40, 50) > 0, normal(40, 50), normal(40, 50)], (40, 50), "f32"),
    "lt": (NONE, [ROW_INDEX, ROW_INDEX.T.copy()], (40, 40), "i1"),
    "permute": (PermuteParams((1, 0)), [normal(40, 50)], (50, 40), "f32"),
    "reshape": (ReshapeParams((50, 40)), [normal(40, 50)], (50, 40), "f32"),
    "broadcast": (BroadcastParams((40, 50)), [normal(40, 1)], (40, 50), "f32"),
    "slice_static": (SliceParams((0, 10), (40, 40), (1, 1)), [normal(40, 50)], (40, 30), "f32"),
    "concat": (ConcatParams(1), [normal(40, 50), normal(40, 3)], (40, 53), "f32"),
    "pad": (PadParams((1, 0), (0, 2), (0, 0)), [normal(40, 50)], (41, 52), "f32"),
    "embedding": (GatherParams(), [INDICES[:, 0], normal(40, 50)], (40, 50), "f32"),
    "gather": (GatherParams((1,), (0,), (), (), (0,), 1, (1, 50)), [normal(40, 50), INDICES], (40, 50), "f32"),
    "scatter": (SCATTER, [normal(40, 50), INDICES, normal(40, 50)], (40, 50), "f32"),
    "cholesky": (CholeskyParams(True), [SQUARE @ SQUARE.T + 40 * np.eye(40, dtype=np.float32)], (40, 40), "f32"),
    "triangular_solve": (TriangularSolveParams(True, True, False, False), [DIAGONAL, normal(40, 50)], (40, 50), "f32"),
    "conv3d": (SAME_3X3X3, [normal(1, 6, 6, 20, 4), normal(3, 3, 3, 4, 8)], (1, 6, 6, 20, 8), "f32"),
    "typecast": (NONE, [normal(40, 50)], (40, 50), "bf16"),
}


@pytest.mark.parametrize("kernel", CASES)
def test_every_mutant_changes_the_result(kernel: str) -> None:
    params, arrays, shape, element = CASES[kernel]
    right = run_kernel(kernel, params, arrays, shape, element)
    mutations = [m for m in mutations_for(kernel, params) if element == "f32" or m.name not in FINE]
    assert mutations
    for mutation in mutations:
        with mutation.apply():
            try:
                wrong = run_kernel(kernel, params, arrays, shape, element)
            except DeviceError:
                continue
        a, b = right.astype(np.float64), wrong.astype(np.float64)
        least = 2e-6 if mutation.name in FINE else 2e-3
        assert not np.allclose(a, b, rtol=least, atol=least, equal_nan=True), mutation.name
    again = run_kernel(kernel, params, arrays, shape, element)
    assert np.array_equal(again, right, equal_nan=True), "and they are gone again"


def test_a_mutant_that_changes_nothing_is_known() -> None:
    x = np.float32([[1, 2], [3, 5]])
    executable = Device().load(write(one_kernel("lt", NONE, [(x.shape, "f32")] * 2, (x.shape, "i1"))))
    (boundary,) = (m for m in mutations_for("lt", NONE) if m.name == "le_instead")
    assert not changes_result(boundary, executable, [x, x + 1])
    assert changes_result(boundary, executable, [x, x])


def test_there_are_mutants_of_every_kernel() -> None:
    assert sum(len(mutations_for(kernel, case[0])) for kernel, case in CASES.items()) >= 100
    for kernel in KERNELS:
        assert bool(mutations_for(kernel)) == (kernel not in NO_MUTANTS)
        names = [m.name for m in mutations_for(kernel)]
        assert len(names) == len(set(names))
