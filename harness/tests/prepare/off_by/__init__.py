"""Authorities that are off by a number in the third element of what a `pad` of five by (1, 2) gives.

Each is a module, as a child asks for it by its name; below our own name, so that the child is a fork.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def off(number: int) -> Callable[..., list[np.ndarray]]:
    """What computes that: `(row, module, inputs) -> results`."""

    def computed(row: Any, module: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
        result = np.pad(inputs[0], (1, 2))
        result[2] += number
        return [result]

    return computed
