"""Where the elements of a product's result are after it was reshaped and permuted: which axes each dim consists of.

An axis is (size, stride): a part of a dim of the result, in which a step goes over `stride` of its elements. A dim that
a reshape made of two others has the axes of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Axis = tuple[int, int]
View = list[tuple[Axis, ...]]
"""The axes of each dim, from the outer to the inner; those of size 1 are left out."""


def whole(shape: Sequence[int]) -> View:
    """Returns the view of a tensor that was not moved."""
    view: View = []
    stride = 1
    for size in reversed(shape):
        view.insert(0, ((size, stride),) if size > 1 else ())
        stride *= size
    return view


def reshaped(view: View, shape: Sequence[int]) -> View | None:
    """Returns the view after a reshape; None if a dim would have a part of an axis that does not divide it."""
    left = [axis for dim in view for axis in dim]
    result: View = []
    for wanted in shape:
        dim: list[Axis] = []
        while wanted > 1:
            size, stride = left.pop(0)
            if wanted % size == 0:
                dim.append((size, stride))
                wanted //= size
            elif size % wanted == 0:
                inner = size // wanted
                dim.append((wanted, stride * inner))
                left.insert(0, (inner, stride))
                wanted = 1
            else:
                return None
        result.append(tuple(dim))
    return result


def joined(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """Returns the same axes with neighbours that are one axis as such."""
    result: list[Axis] = []
    for size, stride in axes:
        if result and result[-1][1] == size * stride:
            result[-1] = (result[-1][0] * size, stride)
        else:
            result.append((size, stride))
    return tuple(result)


def split(axes: Iterable[Axis], boundaries: Sequence[int]) -> list[Axis] | None:
    """Returns the same axes, none of which reaches over one of these strides; None if one cannot be divided there."""
    result = list(axes)
    for boundary in boundaries:
        parts: list[Axis] = []
        for size, stride in result:
            if stride < boundary < size * stride:
                if boundary % stride or size % (boundary // stride):
                    return None
                inner = boundary // stride
                parts += [(size // inner, boundary), (inner, stride)]
            else:
                parts.append((size, stride))
        result = parts
    return result
