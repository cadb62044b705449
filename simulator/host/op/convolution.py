"""Convolutions.

Activations are (N, C, H, W), or (N, H, W, C) with `channel_last`; weights are (Cout, Cin / groups, kH, kW).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.op.common import named, op, several


def paddings(padding: Any, kernel: tuple[int, ...]) -> list[tuple[int, int]]:
    """Returns padding before and behind each dimension: of `same` (half a kernel), a number, or a list.

    A list has one number per dimension, or two, columns first, as in TT-Buda: left, right, top, bottom.
    """
    if padding == "same":
        return [(k // 2, k // 2) for k in kernel]
    if isinstance(padding, int):
        return [(padding, padding)] * len(kernel)
    if isinstance(padding, str):
        raise PyBudaError(f"expected padding 'same', a number or a list, got {padding!r}")
    sizes = [int(p) for p in padding]
    if len(sizes) == len(kernel):
        return [(p, p) for p in sizes]
    if len(sizes) == 2 * len(kernel):
        return [(sizes[i], sizes[i + 1]) for i in range(len(sizes) - 2, -1, -2)]
    raise PyBudaError(f"expected {len(kernel)} or {2 * len(kernel)} paddings, got {sizes}")


def _convolution(
    activations: Any, weights: Any, bias: Any, window: dict[str, Any], groups: int, channel_last: bool
) -> Any:
    spatial = activations.ndim - 2
    letters = "DHW"[-spatial:]
    layout = f"N{letters}C" if channel_last else f"NC{letters}"
    result = lax.conv_general_dilated(
        activations, weights, **window, feature_group_count=groups, dimension_numbers=(layout, f"OI{letters}", layout)
    )
    if bias is None:
        return result
    return result + jnp.ravel(bias).reshape((-1,) if channel_last else (-1, *(1,) * spatial))


def _convolution_over(dims: int, kind: str, doc: str) -> Callable[..., Any]:
    """Makes the convolution over that many dimensions."""

    @op
    @named(kind, doc)
    def function(
        name: str,
        activations: Any,
        weights: Any,
        bias: Any = None,
        stride: int = 1,
        padding: Any = "same",
        dilation: int = 1,
        groups: int = 1,
        channel_last: bool = False,
    ) -> Any:
        window = {
            "window_strides": several(stride, dims, "stride"),
            "padding": paddings(padding, weights.shape[2:]),
            "rhs_dilation": several(dilation, dims, "dilation"),
        }
        return _convolution(activations, weights, bias, window, groups, channel_last)

    return function


Conv2d = _convolution_over(2, "Conv2d", "Returns the convolution over rows and columns, plus a bias of shape (Cout,).")
Conv3d = _convolution_over(3, "Conv3d", "Returns the convolution over depth, rows and columns.")


@op
def Conv2dTranspose(
    name: str,
    activations: Any,
    weights: Any,
    bias: Any = None,
    stride: int = 1,
    padding: Any = "same",
    dilation: int = 1,
    groups: int = 1,
    channel_last: bool = False,
) -> Any:
    """Returns the transposed convolution; weights are (Cin, Cout / groups, kH, kW), as PyTorch has them."""
    cin, cout, kh, kw = weights.shape
    dilations = several(dilation, 2, "dilation")
    grouped = weights.reshape(groups, cin // groups, cout, kh, kw).swapaxes(1, 2)
    kernel = grouped.reshape(groups * cout, cin // groups, kh, kw)[:, :, ::-1, ::-1]
    ends = paddings(padding, (kh, kw))
    whole = [d * (k - 1) for d, k in zip(dilations, (kh, kw), strict=True)]
    window = {
        "window_strides": (1, 1),
        "padding": [(w - before, w - behind) for w, (before, behind) in zip(whole, ends, strict=True)],
        "lhs_dilation": several(stride, 2, "stride"),
        "rhs_dilation": dilations,
    }
    return _convolution(activations, kernel, bias, window, groups, channel_last)
