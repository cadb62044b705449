"""Whether a backend wrote into the inputs of an op: what they were before the run, compared bit by bit afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

COPIED = 64 << 20
"""Bytes up to which inputs are copied; of larger ones only a digest is kept, so that memory does not double."""
COMPARED = 1 << 17
"""Words that are compared at a time: what NumPy says of each stays in a core's cache."""

_spare: list[np.ndarray] = []
"""Memory of copies that nobody needs any more: fresh memory takes longer than what is copied into it."""


class InputSnapshot:
    """The inputs of one op as they were handed to the backend."""

    def __init__(self, inputs: Sequence[np.ndarray]) -> None:
        self._memory: np.ndarray | None = None
        small = sum(array.nbytes for array in inputs) <= COPIED
        self._before = self._copies(inputs) if small else [_digest(array) for array in inputs]

    def __del__(self) -> None:
        if self._memory is not None:
            _spare.append(self._memory)

    def _copies(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Copies of the inputs' bytes, one after another."""
        ends = list(accumulate(-(-array.nbytes // 8) * 8 for array in inputs))  # each begins at a word
        memory = _spare.pop() if _spare else np.empty(0, np.uint8)
        if ends and ends[-1] > memory.size:
            memory = np.empty(ends[-1], np.uint8)
        self._memory = memory
        copies = [memory[start : start + array.nbytes] for start, array in zip((0, *ends), inputs, strict=False)]
        for copy, array in zip(copies, inputs, strict=True):
            copy[:] = _bytes(array)
        return copies

    def overwritten(self, inputs: Sequence[np.ndarray]) -> tuple[int, ...]:
        """Positions of the inputs whose bits are not what they were, or whose size is another."""
        positions = []
        for position, (before, array) in enumerate(zip(self._before, inputs, strict=True)):
            unchanged = _equal(before, _bytes(array)) if isinstance(before, np.ndarray) else before == _digest(array)
            if not unchanged:
                positions.append(position)
        return tuple(positions)


def _bytes(array: np.ndarray) -> np.ndarray:
    """The memory of an array; NaNs and types that are not NumPy's own compare as bits."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _equal(before: np.ndarray, now: np.ndarray) -> bool:
    """Whether two arrays of bytes are equal."""
    if before.size != now.size:
        return False
    words = before.size // 8 * 8
    if not np.array_equal(before[words:], now[words:]):
        return False
    before, now = before[:words].view(np.uint64), now[:words].view(np.uint64)
    blocks = (slice(start, start + COMPARED) for start in range(0, before.size, COMPARED))
    return all(np.array_equal(before[block], now[block]) for block in blocks)


def _digest(array: np.ndarray) -> bytes:
    return hashlib.sha256(_bytes(array).data).digest()
