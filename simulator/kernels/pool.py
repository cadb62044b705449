"""Window reductions over H and W of NHWC tensors: `max_pool2d`, `min_pool2d`, `sum_pool2d`, `avg_pool2d`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opscope.compiler.target.program import Pool2dParams
from opscope.simulator.kernels.eltwise import operands
from opscope.simulator.kernels.reduce import end_of, gapool_operand
from opscope.simulator.kernels.registry import PASS, Call, Images, kernel, params_of
from opscope.simulator.kernels.windows import out_size, pad_crop


def _pool(x: np.ndarray, params: Pool2dParams, fill: float | int, join: Callable[..., np.ndarray]) -> np.ndarray:
    """`join` over the KH * KW shifted views of the padded input: one pass per position in the window."""
    x = pad_crop(x, params.padding, fill)
    oh, ow = (
        out_size(s, k, t, d)
        for s, k, t, d in zip(x.shape[1:3], params.window, params.stride, params.dilation, strict=True)
    )
    result: np.ndarray | None = None
    for i in range(params.window[0]):
        for j in range(params.window[1]):
            top, left = i * params.dilation[0], j * params.dilation[1]
            bottom, right = top + (oh - 1) * params.stride[0] + 1, left + (ow - 1) * params.stride[1] + 1
            view = x[:, top : max(bottom, 0) : params.stride[0], left : max(right, 0) : params.stride[1], :]
            result = view.copy() if result is None else join(result, view, out=result)
    assert result is not None
    return result


def _extreme(name: str, function: np.ufunc, lowest: bool) -> None:
    """Registers the largest or smallest element of each window; padding never wins."""

    def run(images: Images, call: Call) -> np.ndarray:
        (x,) = operands(images, call)
        return _pool(x, params_of(call, Pool2dParams), end_of(x.dtype, lowest=lowest), function)

    kernel(name, Pool2dParams, cycles=PASS)(run)


_extreme("max_pool2d", np.maximum, lowest=True)
_extreme("min_pool2d", np.minimum, lowest=False)


def _window_sum(images: Images, call: Call) -> np.ndarray:
    (x,) = operands(images, call)
    if x.dtype.kind == "f":
        x = gapool_operand(x, call.numerics.fidelity)
    return _pool(x, params_of(call, Pool2dParams), 0, np.add)


@kernel("sum_pool2d", Pool2dParams, unit="matrix")
def sum_pool2d(images: Images, call: Call) -> np.ndarray:
    """Sum of each window, by the matrix unit; padding counts 0."""
    return _window_sum(images, call)


@kernel("avg_pool2d", Pool2dParams, unit="matrix")
def avg_pool2d(images: Images, call: Call) -> np.ndarray:
    """Sum of each window over the divisor."""
    return _window_sum(images, call) / np.float32(params_of(call, Pool2dParams).divisor)
