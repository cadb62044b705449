"""Resizing of images by products with interpolation matrices, one for rows and one for columns, as PyTorch does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.op.common import named, op, several

METHODS = {"nearest": "nearest", "nearest_neighbor": "nearest", "linear": "bilinear", "bilinear": "bilinear"}
"""Words of TT-Buda and of its frontends -> one of two methods."""


def interpolation(size: int, wanted: int, method: str, align_corners: bool) -> np.ndarray:
    """Returns the matrix (wanted, size) that resizes a line: one element of each row, or two that sum to 1."""
    matrix = np.zeros((wanted, size), np.float32)
    for i in range(wanted):
        if method == "nearest":
            matrix[i, min(size - 1, i * size // wanted)] = 1
            continue
        if align_corners:
            at = i * (size - 1) / (wanted - 1) if wanted > 1 else 0.0
        else:
            at = max(0.0, (i + 0.5) * size / wanted - 0.5)
        low = min(size - 1, int(at))
        high, share = min(size - 1, low + 1), at - low
        matrix[i, low] += 1 - share
        matrix[i, high] += share
    return matrix


def _resized(value: Any, sizes: Any, method: str, align_corners: bool, channel_last: bool, count: int) -> Any:
    if method not in METHODS:
        raise PyBudaError(f"expected method {', '.join(METHODS)}, got {method!r}")
    if value.ndim != count + 2:
        raise PyBudaError(f"expected an operand of {count + 2} dimensions, got {value.shape}")
    for i, wanted in enumerate(several(sizes, count, "sizes")):
        axis = i + (1 if channel_last else 2)
        if wanted == value.shape[axis]:
            continue
        matrix = jnp.asarray(interpolation(value.shape[axis], wanted, METHODS[method], align_corners))
        value = jnp.moveaxis(jnp.moveaxis(value, axis, -1) @ matrix.T, -1, axis)
    return value


def _resize_over(dims: int, kind: str, doc: str) -> Callable[..., Any]:
    """Makes the resizing of that many dimensions."""

    @op
    @named(kind, doc)
    def function(
        name: str,
        operandA: Any,
        sizes: Any,
        method: str = "nearest_neighbor",
        align_corners: bool = False,
        extrapolation_value: int = 0,
        channel_last: bool = False,
    ) -> Any:
        return _resized(operandA, sizes, method, align_corners, channel_last, dims)

    return function


Resize2d = _resize_over(
    2, "Resize2d", "Returns (N, C, H, W) with the rows and columns `sizes`; nothing is extrapolated."
)
Resize3d = _resize_over(3, "Resize3d", "Returns (N, C, D, H, W) with the depth, rows and columns `sizes`.")
