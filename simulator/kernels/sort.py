"""`sort` as a bitonic network, `sort_ascending`, `sort_descending` and `topk`.

A network compares fixed pairs, so that a comparator is applied to half of all elements at once, as the device does it.
The elements' numbers make it stable: of two elements that are equal to the comparator, the first is less.
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.program import SortParams, TopkParams
from opscope.compiler.target.rounding import bits
from opscope.simulator.kernels.registry import Body, Call, Images, bodies_of, kernel, params_of


def _network(arrays: Images, body: Body) -> np.ndarray:
    """Order of the last dim of (rows, n) arrays: numbers of the elements, the least first."""
    rows, count = arrays[0].shape
    size = 1 << max(count - 1, 0).bit_length()
    # Elements past the end are greater than all others.
    number = np.broadcast_to(np.arange(size), (rows, size)).copy()
    at = np.arange(size)
    block = 2
    while block <= size:
        step = block // 2
        while step:
            low = at[(at & step) == 0]
            a, b = number[:, low], number[:, low | step]
            less = _less(arrays, b, a, count, body)
            swap = np.where((low & block) == 0, less, ~less)
            number[:, low], number[:, low | step] = np.where(swap, b, a), np.where(swap, a, b)
            step //= 2
        block *= 2
    return number[:, :count]


def _less(arrays: Images, a: np.ndarray, b: np.ndarray, count: int, body: Body) -> np.ndarray:
    """Whether element a comes before element b, both given by their numbers."""
    left = [np.take_along_axis(x, np.minimum(a, count - 1), 1) for x in arrays]
    right = [np.take_along_axis(x, np.minimum(b, count - 1), 1) for x in arrays]
    pairs = [side for pair in zip(left, right, strict=True) for side in pair]
    turned = [side for pair in zip(right, left, strict=True) for side in pair]
    before, after = body(*pairs)[0] != 0, body(*turned)[0] != 0
    less = np.where(before == after, a < b, before)
    return np.where((a >= count) | (b >= count), a < b, less)


@kernel("sort", SortParams, unit="move", arity=(1, 1024))
def sort(images: Images, call: Call) -> Images:
    """Tensors sorted together along a dim by a comparator of their elements."""
    dim = params_of(call, SortParams).dim
    if images[0].ndim == 0 or images[0].size == 0:
        return images[: len(call.outputs)]
    own = len(call.outputs)
    moved = [np.moveaxis(x, dim, -1) for x in images[:own]]
    flat = [np.ascontiguousarray(x).reshape(-1, x.shape[-1]) for x in moved]
    order = _network(flat, bodies_of(call, images, own)[0])
    return [
        np.moveaxis(np.take_along_axis(x, order, 1).reshape(m.shape), -1, dim) for x, m in zip(flat, moved, strict=True)
    ]


def _ascending(x: np.ndarray) -> np.ndarray:
    """Integers in the order of the elements; floats in total order."""
    if x.dtype.kind != "f":
        return x.astype(np.int64)
    pattern = bits(x).view(np.int32).astype(np.int64)
    return np.where(pattern < 0, pattern ^ 0x7FFFFFFF, pattern)


def _in_order(images: Images, call: Call, sign: int) -> Images:
    """Values along a dim in the order of `sign` times them, and the places that they had; of equals the first first."""
    dim = params_of(call, SortParams).dim
    order = np.argsort(sign * _ascending(images[0]), axis=dim, kind="stable")
    return [np.take_along_axis(images[0], order, dim), order]


@kernel("sort_ascending", SortParams, unit="move")
def sort_ascending(images: Images, call: Call) -> Images:
    """Values and indices along a dim, the least first."""
    return _in_order(images, call, 1)


@kernel("sort_descending", SortParams, unit="move")
def sort_descending(images: Images, call: Call) -> Images:
    """Values and indices along a dim, the largest first."""
    return _in_order(images, call, -1)


@kernel("topk", TopkParams, unit="move")
def topk(images: Images, call: Call) -> Images:
    """Values and indices of the largest along the last dim, the largest first; of equals the first one first."""
    order = np.argsort(-_ascending(images[0]), axis=-1, kind="stable")[..., : params_of(call, TopkParams).k]
    return [np.take_along_axis(images[0], order, -1), order]
