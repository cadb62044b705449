"""Pooling. Activations are (N, C, ...), or (N, ..., C) with `channel_last`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.op.common import named, op, several
from opscope.simulator.host.op.convolution import paddings


@dataclass(frozen=True)
class _Window:
    """A window in every dimension of the activations."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    ends: tuple[tuple[int, int], ...]
    """Padding that counts."""
    extra: tuple[int, ...]
    """What `ceil_mode` needs behind it, which never counts."""

    def reduced(self, value: Any, initial: float, combine: Callable[..., Any]) -> Any:
        """Returns the windows of `value`, combined."""
        ends = [(before, behind + more) for (before, behind), more in zip(self.ends, self.extra, strict=True)]
        return lax.reduce_window(value, initial, combine, self.size, self.stride, ends, window_dilation=self.dilation)


def _window(
    value: Any, count: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, last: bool
) -> _Window:
    if value.ndim != count + 2:
        raise PyBudaError(f"expected activations of {count + 2} dimensions, got {value.shape}")
    kernel = several(kernel_size, count, "kernel_size")
    strides, dilations = several(stride, count, "stride"), several(dilation, count, "dilation")
    ends = paddings(padding, kernel)
    sizes = value.shape[1:-1] if last else value.shape[2:]
    extra = [0] * count
    if ceil_mode:
        for i, size in enumerate(sizes):
            span = size + sum(ends[i]) - dilations[i] * (kernel[i] - 1) - 1
            outputs = -(-span // strides[i]) + 1
            if (outputs - 1) * strides[i] >= size + ends[i][0]:  # a window that begins behind the input
                outputs -= 1
            extra[i] = max(0, (outputs - 1) * strides[i] - span)

    def whole(values: Any, other: Any) -> tuple[Any, ...]:
        return (other, *values, other) if last else (other, other, *values)

    return _Window(whole(kernel, 1), whole(strides, 1), whole(dilations, 1), whole(ends, (0, 0)), whole(extra, 0))


def _max(value: Any, window: _Window, return_indices: bool) -> Any:
    if return_indices:
        raise PyBudaError("expected return_indices=False, got True: TT-Buda has no other")
    return window.reduced(value, -jnp.inf, lax.max)


def _average(value: Any, window: _Window, count_include_pad: bool, divisor: float | None) -> Any:
    sums = window.reduced(value, 0.0, lax.add)
    if divisor is not None:
        return sums / divisor
    if count_include_pad and not any(window.extra):
        return sums * (1 / np.prod(window.size))
    counted = np.ones(value.shape, np.float32)
    if count_include_pad:
        counted = np.pad(counted, window.ends, constant_values=1)
        bare = _Window(window.size, window.stride, window.dilation, ((0, 0),) * value.ndim, window.extra)
        return sums / bare.reduced(jnp.asarray(counted), 0.0, lax.add)
    return sums / window.reduced(jnp.asarray(counted), 0.0, lax.add)


@op
def MaxPool1d(
    name: str,
    activations: Any,
    kernel_size: Any,
    stride: int = 1,
    padding: Any = 0,
    dilation: int = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Returns the maxima of windows over columns of (N, C, W)."""
    return _max(
        activations, _window(activations, 1, kernel_size, stride, padding, dilation, ceil_mode, False), return_indices
    )


def _max_pool_over(dims: int, kind: str, doc: str) -> Callable[..., Any]:
    """Makes the maximum of windows over that many dimensions."""

    @op
    @named(kind, doc)
    def function(
        name: str,
        activations: Any,
        kernel_size: Any,
        stride: int = 1,
        padding: Any = "same",
        dilation: int = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
        max_pool_add_sub_surround: bool = False,
        max_pool_add_sub_surround_value: float = 1.0,
        channel_last: bool = False,
    ) -> Any:
        window = _window(activations, dims, kernel_size, stride, padding, dilation, ceil_mode, channel_last)
        return _max(activations, window, return_indices)

    return function


MaxPool2d = _max_pool_over(
    2,
    "MaxPool2d",
    """Returns the maxima of windows over rows and columns.

    `max_pool_add_sub_surround` keeps negative numbers above a padding of zeros; the padding here is lower than any.
    """,
)
MaxPool3d = _max_pool_over(3, "MaxPool3d", "Returns the maxima of windows over depth, rows and columns.")


@op
def AvgPool1d(
    name: str,
    activations: Any,
    kernel_size: Any,
    stride: int = 1,
    padding: Any = "same",
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """Returns the means of windows over columns of (N, C, W)."""
    window = _window(activations, 1, kernel_size, stride, padding, 1, ceil_mode, False)
    return _average(activations, window, count_include_pad, None)


@op
def AvgPool2d(
    name: str,
    activations: Any,
    kernel_size: Any,
    stride: int = 1,
    padding: Any = "same",
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
    channel_last: bool = False,
) -> Any:
    """Returns the means of windows over rows and columns, of the padding too (`count_include_pad`)."""
    window = _window(activations, 2, kernel_size, stride, padding, 1, ceil_mode, channel_last)
    return _average(activations, window, count_include_pad, divisor_override)
