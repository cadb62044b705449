"""`cholesky` and `triangular_solve` of the last two dims: serial over rows, all matrices of a batch at once.

Both run on the SFPU in float32: each step is a row of products, a sum and a division.
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.program import CholeskyParams, TriangularSolveParams
from opscope.simulator.kernels.eltwise import operands
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of


@kernel("cholesky", CholeskyParams, cycles=("reciprocal",))
def cholesky(images: Images, call: Call) -> np.ndarray:
    """The triangle whose product with its transpose is the operand, of which one triangle is read; the other is 0."""
    lower = params_of(call, CholeskyParams).lower
    (a,) = operands(images, call)
    a = a if lower else a.swapaxes(-1, -2)
    size = a.shape[-1]
    factor = np.zeros_like(a)
    for j in range(size):
        done = factor[..., j:, :j] @ factor[..., j, :j, np.newaxis]
        column = a[..., j:, j] - done[..., 0]
        factor[..., j:, j] = column / np.sqrt(column[..., :1])
    return factor if lower else factor.swapaxes(-1, -2)


@kernel("triangular_solve", TriangularSolveParams, arity=2, cycles=("reciprocal",))
def triangular_solve(images: Images, call: Call) -> np.ndarray:
    """Forward or backward substitution; the other triangle is not read, nor is a unit diagonal."""
    params = params_of(call, TriangularSolveParams)
    a, b = operands(images, call)
    # Everything else is turned into: solve a x = b.
    if params.transpose_a != (not params.left_side):
        a = a.swapaxes(-1, -2)
    if not params.left_side:
        b = b.swapaxes(-1, -2)
    lower = params.lower != (params.transpose_a != (not params.left_side))
    size = a.shape[-1]
    x = np.zeros_like(b)
    for i in range(size) if lower else reversed(range(size)):
        known = slice(0, i) if lower else slice(i + 1, size)
        row = b[..., i, :] - (a[..., i, np.newaxis, known] @ x[..., known, :])[..., 0, :]
        x[..., i, :] = row if params.unit_diagonal else row / a[..., i, i, np.newaxis]
    return x if params.left_side else x.swapaxes(-1, -2)
