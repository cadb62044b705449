"""Operations of an op, counted by hand."""

from __future__ import annotations

import pytest

from opscope.compiler.target.program import Conv2dParams, EltwiseParams, MatmulParams, Params
from opscope.simulator.tests.programs import one_kernel
from opscope.simulator.timing.flops import flops_of

Shapes = list[tuple[int, ...]]


@pytest.mark.parametrize(
    ("kernel", "params", "operands", "out", "flops"),
    [
        ("matmul", MatmulParams(), [(5, 3), (3, 7)], (5, 7), 2 * 5 * 3 * 7),
        ("matmul", MatmulParams(transpose_a=True), [(3, 5), (3, 7)], (5, 7), 2 * 5 * 3 * 7),
        (
            "conv2d",
            Conv2dParams((1, 1), (0, 0, 0, 0), (1, 1)),
            [(1, 4, 4, 2), (3, 3, 2, 6)],
            (1, 2, 2, 6),
            2 * (2 * 2 * 6) * (3 * 3 * 2),
        ),
        ("exp", EltwiseParams(), [(5, 7)], (5, 7), 35),
    ],
)
def test_flops(kernel: str, params: Params, operands: Shapes, out: tuple[int, ...], flops: int) -> None:
    program = one_kernel(kernel, params, [(shape, "f32") for shape in operands], (out, "f32")).programs[0]
    assert flops_of(program.operations[len(operands)], program) == flops
