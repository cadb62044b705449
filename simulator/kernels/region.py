"""Kernels that fold by a body: whole dims, windows, and the selected elements of windows.

A body joins two values of n scalars to one. The specification leaves the order of a fold to the device: here dims are
folded in halves that keep their order, windows place by place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from opscope.compiler.target.program import BodyReduceParams, BodyWindowParams, SelectScatterParams
from opscope.simulator.kernels.data_movement import padded
from opscope.simulator.kernels.eltwise import operands
from opscope.simulator.kernels.registry import PASS, Body, Call, Images, bodies_of, kernel, params_of
from opscope.simulator.kernels.scatter import join_into
from opscope.simulator.kernels.windows import out_size


def applied(body: Body, images: Sequence[np.ndarray], shape: tuple[int, ...]) -> Images:
    """Results of a body, a constant one repeated to `shape`."""
    return [np.broadcast_to(r, shape) for r in body(*images)]


@kernel("reduce_body", BodyReduceParams, arity=(2, 1024), cycles=PASS)
def reduce_body(images: Images, call: Call) -> Images:
    """Dims folded by a body, start values last."""
    params, half = params_of(call, BodyReduceParams), len(call.outputs)
    images = operands(images, call)
    (body,) = bodies_of(call, images, 2 * half)
    rank = images[0].ndim
    dims = [d % rank for d in params.dims]
    kept = [d for d in range(rank) if d not in dims]
    shape = tuple(images[0].shape[d] for d in kept)
    count = math.prod(images[0].shape[d] for d in dims)
    parts = [x.transpose(*dims, *kept).reshape(count, *shape) for x in images[:half]]
    start = [np.broadcast_to(x, shape) for x in images[half : 2 * half]]
    if not count:
        return start
    while (size := parts[0].shape[0]) > 1:
        even = size // 2 * 2
        folded = applied(body, [*(x[0:even:2] for x in parts), *(x[1:even:2] for x in parts)], (even // 2, *shape))
        parts = [np.concatenate([f, x[even:]]) if even < size else f for f, x in zip(folded, parts, strict=True)]
    return applied(body, [*start, *(x[0] for x in parts)], shape)


def _places(window: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(size) for size in window))


def _view(
    x: np.ndarray, place: Sequence[int], out: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> np.ndarray:
    """The elements at one place of every window."""
    first = [p * d for p, d in zip(place, dilation, strict=True)]
    return x[
        tuple(slice(f, f + max(n - 1, 0) * s + 1 if n else f, s) for f, n, s in zip(first, out, stride, strict=True))
    ]


@kernel("reduce_window_body", BodyWindowParams, arity=(2, 1024), cycles=PASS)
def reduce_window_body(images: Images, call: Call) -> Images:
    """Windows folded by a body, place by place in row-major order; padding and holes hold the start value."""
    params, half = params_of(call, BodyWindowParams), len(call.outputs)
    images = operands(images, call)
    (body,) = bodies_of(call, images, 2 * half)
    start = [x.reshape(()) for x in images[half : 2 * half]]
    interior = [b - 1 for b in params.base_dilation]
    whole = [
        padded(x, s, params.padding[0::2], params.padding[1::2], interior)
        for x, s in zip(images[:half], start, strict=True)
    ]
    out = call.outputs[0].shape
    total = [np.broadcast_to(s, out) for s in start]
    for place in _places(params.window):
        views = [_view(x, place, out, params.stride, params.dilation) for x in whole]
        total = applied(body, [*total, *views], out)
    return total


@kernel("select_and_scatter", SelectScatterParams, arity=(3, 1024), cycles=PASS)
def select_and_scatter(images: Images, call: Call) -> np.ndarray:
    """Each source value is joined into the place that its window selects; padding is never selected."""
    params, images = params_of(call, SelectScatterParams), operands(images, call)
    x, source, start = images[:3]
    select, *others = bodies_of(call, images, 3)
    low, high, none = params.padding[0::2], params.padding[1::2], [0] * x.ndim
    ones = [1] * x.ndim
    whole = padded(x, x.dtype.type(0), low, high, none)
    index = padded(np.arange(x.size).reshape(x.shape), -1, low, high, none)
    out = tuple(out_size(n, w, s, 1) for n, w, s in zip(whole.shape, params.window, params.stride, strict=True))
    best, winner = np.zeros(out, x.dtype), np.full(out, -1)
    for place in _places(params.window):
        value = _view(whole, place, out, params.stride, ones)
        where = _view(index, place, out, params.stride, ones)
        (stays,) = applied(select, [best, value], out)
        takes = (where >= 0) & ((winner < 0) | (stays == 0))
        best, winner = np.where(takes, value, best), np.where(takes, where, winner)
    result = np.full(x.size, start.reshape(()), x.dtype)
    join_into([result], winner.ravel(), [source.ravel()], params.combine, others[0] if others else None, call)
    return result.reshape(x.shape)
