"""The backward pass of a convolution on the Buda route: its weights' gradient, and the image's, against XLA."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from opscope.base.tests.covered import covered
from opscope.compiler.buda.plan_to_binary import to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests.planned import lowered_function, pcc, run

Edges = tuple[tuple[int, int], tuple[int, int]]
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, int, Edges]] = {
    "same": ((1, 8, 8, 4), (3, 3, 4, 8), 1, 1, ((1, 1), (1, 1))),
    "one channel": ((1, 9, 7, 1), (3, 2, 1, 5), 1, 1, ((0, 0), (0, 0))),
    "strided": ((1, 13, 9, 3), (3, 3, 3, 7), 2, 1, ((1, 1), (0, 2))),
    "last pixels unread": ((1, 8, 10, 3), (3, 3, 3, 7), 3, 1, ((0, 0), (0, 0))),
    "dilated": ((1, 12, 11, 3), (3, 3, 3, 7), 1, 2, ((2, 2), (1, 0))),
    "a pixel": ((1, 6, 6, 40), (1, 1, 40, 33), 1, 1, ((0, 0), (0, 0))),
}


@pytest.mark.parametrize("name", covered(CASES, {"same": "dilated", "strided": "last pixels unread"}))
def test_both_gradients_are_xlas(name: str) -> None:
    image, kernel, stride, dilation, edges = CASES[name]

    def convolved(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, w, (stride, stride), edges, rhs_dilation=(dilation, dilation), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def backward(x: Any, w: Any, slope: Any) -> Any:
        # Made on the device, as it is within a backward pass.
        dx, dw = jax.vjp(convolved, x, w)[1](jax.numpy.tanh(slope))
        return dw, dx

    out = jax.eval_shape(convolved, jax.ShapeDtypeStruct(image, "float32"), jax.ShapeDtypeStruct(kernel, "float32"))
    case = lowered_function(backward, image, kernel, out.shape)
    program = to_binary(plan(case.graph, budget_of("n150")), load_board("n150"))
    for placed in (True, False):
        results = run(program, case.queues, placed=placed)
        for got, expected in zip(results, case.golden, strict=True):
            assert pcc(got.reshape(expected.shape), expected) > 0.999
            assert np.abs(got.reshape(expected.shape) - expected).max() < 0.02 * np.abs(expected).max()
