"""Whether a backend wrote into the inputs of an op: what they were before the run, compared bit by bit afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

COPIED = 64 << 20
"""Bytes up to which inputs are copied; of larger ones only a digest is kept, so that memory does not double."""


class InputSnapshot:
    """The inputs of one op as they were handed to the backend."""

    def __init__(self, inputs: Sequence[np.ndarray]) -> None:
        small = sum(array.nbytes for array in inputs) <= COPIED
        self._small = small
        self._before = [_bytes(array).copy() if small else _digest(array) for array in inputs]

    def overwritten(self, inputs: Sequence[np.ndarray]) -> tuple[int, ...]:
        """Positions of the inputs whose bits are not what they were, or whose size is another."""
        positions = []
        for position, (before, array) in enumerate(zip(self._before, inputs, strict=True)):
            unchanged = (
                np.array_equal(before, _bytes(array)) if isinstance(before, np.ndarray) else before == _digest(array)
            )
            if not unchanged:
                positions.append(position)
        return tuple(positions)


def _bytes(array: np.ndarray) -> np.ndarray:
    """The memory of an array; NaNs and types that are not NumPy's own compare as bits."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _digest(array: np.ndarray) -> bytes:
    return hashlib.sha256(memoryview(_bytes(array))).digest()  # type: ignore[arg-type]
