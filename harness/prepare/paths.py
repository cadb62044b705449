"""Paths of ops in locations: how a value that a compiler made is known to stand for one of the program."""

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
    """The path in a location that a compiler hands back, `main/12 (file:line)`; empty where there is none."""
    path = location.removeprefix(PART).partition(" (")[0].partition(" = ")[0]
    return path if path.startswith(ROOT) else ""


def moves_of(location: str) -> tuple[Move, ...] | None:
    """The moves that make what the compiler has the value at the path: of `main/12 = permute[1,0] (file:line)` one.

    Empty where it lies as the program has it; None where it is no more than a step to it, `part of main/12`.
    """
    if location.startswith(PART):
        return None
    moves_text = location.partition(" (")[0].partition(" = ")[2]
    return tuple((kind, tuple(map(int, filter(None, text.split(","))))) for kind, text in _MOVE.findall(moves_text))


def moved(array: np.ndarray, moves: Sequence[Move]) -> np.ndarray:
    """An array after some moves. Raises ValueError where one does not fit it."""
    for kind, numbers in moves:
        array = array.transpose(numbers) if kind == "permute" else array.reshape(numbers)
    return array


def moved_back(array: np.ndarray, moves: Sequence[Move], shape: Sequence[int]) -> np.ndarray:
    """The array of that shape which some moves make `array`. Raises ValueError where there is none."""
    place = moved(np.arange(array.size).reshape(shape), moves)
    original = np.empty(array.size, array.dtype)
    original[place.reshape(-1)] = array.reshape(-1)
    return original.reshape(shape)


def moved_shape(shape: tuple[int, ...], moves: Sequence[Move]) -> tuple[int, ...] | None:
    """The shape of an array after some moves; None where one does not fit it."""
    try:
        return moved(np.broadcast_to(np.int8(0), shape), moves).shape
    except ValueError:
        return None
