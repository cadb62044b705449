"""Kernels that move elements and compute nothing, so that bits do not change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.compiler.target.program import (
    BroadcastParams,
    ConcatParams,
    PadParams,
    PermuteParams,
    ReshapeParams,
    ReverseParams,
    SliceParams,
)
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of

LARGE, BLOCK = 1 << 20, 256
"""Elements from which a transpose is copied in blocks, and their length along the last dim."""


@kernel("prepare_conv2d_weights", PermuteParams, unit="move", picks=True)
@kernel("prepare_conv3d_weights", PermuteParams, unit="move", picks=True)
@kernel("permute", PermuteParams, unit="move", picks=True)
def permute(images: Images, call: Call) -> np.ndarray:
    """Dims reordered; of a convolution's weights by the host."""
    permutation = params_of(call, PermuteParams).permutation
    view = np.transpose(images[0], permutation)
    if view.size < LARGE or not permutation or permutation[-1] == view.ndim - 1:
        return view
    # The host copies a large transpose six times as fast in blocks that fit its cache.
    out = np.empty(view.shape, view.dtype)
    for start in range(0, view.shape[-1], BLOCK):
        out[..., start : start + BLOCK] = view[..., start : start + BLOCK]
    return out


@kernel("view", ReshapeParams, unit="move", picks=True)
@kernel("reshape", ReshapeParams, unit="move", picks=True)
def reshape(images: Images, call: Call) -> np.ndarray:
    """Another shape, row-major order kept; a view is one that a kernel takes its operand in, which moves nothing."""
    return np.reshape(images[0], params_of(call, ReshapeParams).shape)


@kernel("broadcast", BroadcastParams, unit="move", picks=True)
def broadcast(images: Images, call: Call) -> np.ndarray:
    """Dims of size 1 repeated."""
    return np.broadcast_to(images[0], params_of(call, BroadcastParams).shape)


@kernel("repeat", BroadcastParams, unit="move", picks=True)
def repeat(images: Images, call: Call) -> np.ndarray:
    """The whole tensor repeated along dims, as often as its size goes into the result's."""
    x, shape = images[0], params_of(call, BroadcastParams).shape
    if x.ndim != len(shape) or any(n and size % n for n, size in zip(x.shape, shape, strict=True)):
        raise ValueError(f"a shape with multiples of {x.shape}, got {shape}")
    return np.tile(x, tuple(size // n if n else 1 for n, size in zip(x.shape, shape, strict=True)))


@kernel("slice_static", SliceParams, unit="move", picks=True)
def slice_static(images: Images, call: Call) -> np.ndarray:
    """Every step-th element from begin to end, per dim."""
    params = params_of(call, SliceParams)
    return images[0][tuple(map(slice, params.begins, params.ends, params.steps))]


@kernel("slice_dynamic", SliceParams, unit="move", arity=3, picks=True)
def slice_dynamic(images: Images, call: Call) -> np.ndarray:
    """Every step-th element per dim, from the begins that the second input holds to the ends that the third does."""
    x, begins, ends = images
    steps = params_of(call, SliceParams).steps
    return x[tuple(slice(int(b), int(e), s) for b, e, s in zip(begins.ravel(), ends.ravel(), steps, strict=True))]


@kernel("concat", ConcatParams, unit="move", picks=True, arity=(1, 1024))
def concat(images: Images, call: Call) -> np.ndarray:
    """Operands one after another along a dim."""
    return np.concatenate(images, axis=params_of(call, ConcatParams).dim)


@kernel("pad", PadParams, unit="move", arity=(1, 2))
def pad(images: Images, call: Call) -> np.ndarray:
    """Padding low, high and between neighbours, as StableHLO's pad; negative low and high crop."""
    params, x = params_of(call, PadParams), images[0]
    value = images[1].reshape(()) if len(images) > 1 else np.asarray(params.value, x.dtype)
    return padded(x, value, params.low, params.high, params.interior)


def padded(
    x: np.ndarray, value: np.ndarray | int, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> np.ndarray:
    """`x` with `value` around it and between neighbours; negative low and high crop."""
    spread = tuple(max((n - 1) * (i + 1) + 1, 0) if n else 0 for n, i in zip(x.shape, interior, strict=True))
    shape = tuple(n + lo + hi for n, lo, hi in zip(spread, low, high, strict=True))
    out = np.full(shape, value, x.dtype)
    source: list[slice] = []
    target: list[slice] = []
    for n, lo, inner, size in zip(x.shape, low, interior, shape, strict=True):
        step = inner + 1
        # First and last element whose place lo + index * step lies inside the result.
        first = max(0, -(lo // step)) if lo < 0 else 0
        last = min(n, (size - 1 - lo) // step + 1) if size else 0
        last = max(last, first)
        source.append(slice(first, last))
        start = lo + first * step
        target.append(slice(start, start + (last - first - 1) * step + 1 if last > first else start, step))
    out[tuple(target)] = x[tuple(source)]
    return out


@kernel("reverse", ReverseParams, unit="move", picks=True)
def reverse(images: Images, call: Call) -> np.ndarray:
    """Order reversed along dims."""
    return np.flip(images[0], params_of(call, ReverseParams).dims)
