"""Operations whose result has no element: they have the shape that XLA gives them, and take a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, nn

from opscope.compiler.target.program import (
    CholeskyParams,
    Conv2dParams,
    EltwiseParams,
    MatmulParams,
    Params,
    ReduceParams,
    SoftmaxParams,
)
from opscope.simulator.device import Device
from opscope.simulator.tests.programs import run_result
from opscope.simulator.timing.closed_form import ClosedForm
from opscope.simulator.timing.timed import Timed

Shape = tuple[int, ...]


def convolution(x: Any, weight: Any) -> Any:
    return lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


WHOLE = Conv2dParams((1, 1), (0, 0, 0, 0), (1, 1))
CASES: dict[str, tuple[str, Params, list[Shape], Callable[..., Any]]] = {
    "no_batch": ("matmul", MatmulParams(), [(0, 2, 4), (0, 4, 3)], jnp.matmul),
    "no_column": ("matmul", MatmulParams(), [(2, 4), (4, 0)], jnp.matmul),
    "no_image": ("conv2d", WHOLE, [(0, 8, 8, 3), (3, 3, 3, 4)], convolution),
    "no_channel": ("conv2d", WHOLE, [(1, 8, 8, 3), (3, 3, 3, 0)], convolution),
    "window_too_high": ("conv2d", WHOLE, [(1, 2, 8, 3), (3, 3, 3, 4)], convolution),
    "no_row": ("softmax", SoftmaxParams(1), [(0, 4)], nn.softmax),
    "no_sum": ("sum", ReduceParams((1,)), [(0, 4)], lambda x: x.sum(1)),
    "no_matrix": ("cholesky", CholeskyParams(lower=True), [(0, 4, 4)], np.linalg.cholesky),
    "elementwise": ("exp", EltwiseParams(), [(0, 4)], jnp.exp),
}


@pytest.mark.crossed
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("exact_order", [False, True])
def test_a_result_without_elements_is_made_by_no_core(name: str, exact_order: bool) -> None:
    kernel, params, shapes, by_xla = CASES[name]
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    want = np.asarray(by_xla(*arrays))
    for board in ("n150", "p150"):
        for timing in (ClosedForm(), Timed()):
            device = Device(board, exact_order=exact_order, timing=timing)
            result = run_result(kernel, params, arrays, want.shape, "f32", device=device)
            assert (result.outputs[0].shape, result.outputs[0].dtype) == (want.shape, want.dtype)
            assert result.profile.total_cycles == sum(cost.launch_cycles for cost in result.profile.ops) > 0


def test_what_adds_up_nothing_is_zero() -> None:
    for kernel, params, shapes, want in (
        ("matmul", MatmulParams(), [(2, 0), (0, 3)], np.zeros((2, 3))),
        ("sum", ReduceParams((0,)), [(0, 4)], np.zeros(4)),
    ):
        arrays = [np.ones(shape, np.float32) for shape in shapes]
        for exact_order in (False, True):
            result = run_result(kernel, params, arrays, want.shape, "f32", device=Device(exact_order=exact_order))
            assert np.array_equal(result.outputs[0], want)
