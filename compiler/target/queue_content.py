"""How a value of the host fills a queue: reordered, padded, as float32 of z, rows and columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opscope.compiler.target.formats import TILE

SAVED = ".saved"
"""What the name of a device's output that saves the result of an op ends with."""


@dataclass(frozen=True)
class QueueContent:
    """The layout of one queue's content."""

    name: str
    """The queue."""
    elements: tuple[int, int, int]
    """Elements along z, rows and columns; the value's elements follow in row-major order."""
    inverted: bool = False
    """Whether the queue holds the reciprocal of the value."""
    channels: int = 0
    """Input channels of convolution weights (KH, KW, I, O), padded with zeros to whole tiles; 0 for other values."""
    groups: int = 1
    """Groups of these channels; with one group per channel each tap's weights are diagonals of tiles."""

    def holds(self, shape: tuple[int, ...]) -> bool:
        """Whether a value of this shape can be laid out."""
        if not self.channels:
            return math.prod(shape) == math.prod(self.elements)
        if len(shape) != 4 or shape[2] * self.groups != self.channels:
            return False
        kh, kw, _, out = shape
        rows = TILE if self._by_channel(out) else self.channels + -self.channels % TILE
        return self.elements == (1, kh * kw * rows, out)

    def _by_channel(self, out: int) -> bool:
        return self.groups == self.channels == out and out > 1

    def laid_out(self, value: np.ndarray) -> np.ndarray:
        """Returns the content of the queue. Raises ValueError for a value of another size."""
        value = np.asarray(value).astype(np.float32)
        if self.inverted:
            value = np.float32(1) / value
        if self.channels:
            value = self._taps(value)
        return value.reshape(self.elements)

    def _taps(self, value: np.ndarray) -> np.ndarray:
        """Returns convolution weights as rows of taps, each of whole tiles; zeros between groups."""
        kh, kw, own, out = value.shape
        if self._by_channel(out):
            rows = np.zeros((kh * kw, TILE, out), np.float32)
            rows[:, np.arange(out) % TILE, np.arange(out)] = value.reshape(kh * kw, out)
            return rows
        dense = np.zeros((kh, kw, -(-self.channels // TILE) * TILE, out), np.float32)
        each = out // self.groups
        for group in range(self.groups):
            columns = slice(group * each, (group + 1) * each)
            dense[:, :, group * own : (group + 1) * own, columns] = value[..., columns]
        return dense
