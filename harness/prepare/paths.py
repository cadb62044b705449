"""Paths of ops in locations, by which a value in a compiled program is matched to a value of the model."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

ROOT = "main/"
"""What every path begins with (harness/prepare/split.py)."""

PART = "part of "
"""Before the path of the op that another was made for."""

Move = tuple[str, tuple[int, ...]]
"""`permute` with an order of dims, or `reshape` with a shape."""

_MOVE = re.compile(r"(permute|reshape)\[([\d,]*)\]")


def path_of(location: str) -> str:
    """The path in a location that a compiler returns, `main/12 (file:line)`; empty if there is none."""
    path = location.removeprefix(PART).partition(" (")[0].partition(" = ")[0]
    return path if path.startswith(ROOT) else ""


def moves_of(location: str) -> tuple[Move, ...] | None:
    """The moves that turn the compiler's value into the value at the path; one in `main/12 = permute[1,0] (file:line)`.

    Empty if the layout is the program's own; None if the value is only a step towards it, `part of main/12`.
    """
    if location.startswith(PART):
        return None
    moves_text = location.partition(" (")[0].partition(" = ")[2]
    return tuple((kind, tuple(map(int, filter(None, text.split(","))))) for kind, text in _MOVE.findall(moves_text))


def moved(array: np.ndarray, moves: Sequence[Move]) -> np.ndarray:
    """An array after some moves. Raises ValueError if one does not fit it."""
    for kind, numbers in moves:
        array = array.transpose(numbers) if kind == "permute" else array.reshape(numbers)
    return array


def moved_back(array: np.ndarray, moves: Sequence[Move], shape: Sequence[int]) -> np.ndarray:
    """The array of shape `shape` that the moves turn into `array`. Raises ValueError if there is none."""
    place = moved(np.arange(array.size).reshape(shape), moves)
    original = np.empty(array.size, array.dtype)
    original[place.reshape(-1)] = array.reshape(-1)
    return original.reshape(shape)


def moved_shape(shape: tuple[int, ...], moves: Sequence[Move]) -> tuple[int, ...] | None:
    """The shape of an array after some moves; None if one does not fit it."""
    try:
        return moved(np.broadcast_to(np.int8(0), shape), moves).shape
    except ValueError:
        return None
