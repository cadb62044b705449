"""A microbatch: the inputs that one push brings along their leading dimension. A card computes one after the other.

A tensor of leading size 1 is the same for all of them, and so is one without dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.tensor import Tensor, array_of, is_torch, to_torch


def size_of(where: str, tensors: Sequence[Any]) -> int:
    """Returns how many inputs a push brings: the leading size of its first tensor.

    Raises PyBudaError for none, for what is no tensor (a dict or a list of some), and for a tensor whose leading size
    is neither this one nor 1.
    """
    for number, value in enumerate(tensors):
        if not hasattr(value, "shape"):
            raise PyBudaError(
                f"{where}: expected a tensor as input {number}, got a {type(value).__name__}; try a module that takes "
                "its tensors one by one"
            )
    sizes = [value.shape[0] if len(value.shape) else 1 for value in tensors]
    size = sizes[0] if sizes else 1
    if size < 1:
        raise PyBudaError(f"{where}: expected a microbatch of 1 input or more, got {size}")
    for number, other in enumerate(sizes):
        if other not in (1, size):
            raise PyBudaError(
                f"{where}: expected a leading size of {size}, as input 0 has, or of 1, got {other} of input {number}"
            )
    return size


def one_by_one(where: str, tensors: Sequence[Any], size: int) -> list[list[Any]]:
    """Returns the inputs of each of `size` runs, of leading size 1; all tensors as they are where `size` is 1.

    Raises PyBudaError for a tensor of another leading size than 1 and `size`.
    """
    values: list[Any] = [value.elements if isinstance(value, Tensor) else value for value in tensors]
    if size == 1:
        return [values]
    for number, value in enumerate(values):
        if len(value.shape) and value.shape[0] not in (1, size):
            raise PyBudaError(
                f"{where}: expected a microbatch of {size} inputs, got a leading size of {value.shape[0]} of input "
                f"{number}"
            )
    shared = [not len(value.shape) or value.shape[0] == 1 for value in values]
    return [
        [value if same else value[i : i + 1] for value, same in zip(values, shared, strict=True)] for i in range(size)
    ]


def joined(results: Sequence[Sequence[Any]]) -> list[Any]:
    """Returns the results of all runs of a microbatch, one behind the other along the leading dimension.

    Results whose leading size is not 1 are stacked along a new one. Those of a single run stay as they are.
    """
    if len(results) == 1:
        return list(results[0])
    whole = [
        np.concatenate([_with_leading_1(array_of(value)) for value in values]) for values in zip(*results, strict=True)
    ]
    return [to_torch(array) if is_torch(like) else array for array, like in zip(whole, results[0], strict=True)]


def joined_shape(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """Returns the shape of the joined results of `size` runs, each of which has a result of this shape."""
    return tuple(shape) if size == 1 else (size, *(shape[1:] if shape[:1] == (1,) else shape))


def _with_leading_1(array: np.ndarray) -> np.ndarray:
    return array if array.shape[:1] == (1,) else array[None]
