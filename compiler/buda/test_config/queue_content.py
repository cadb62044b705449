"""Contents of queues between whole 32x32 tiles, as the golden has them, and the elements that a binary takes."""

from __future__ import annotations

import numpy as np

from opscope.compiler.buda.test_config.rows import TILE, Row, tile_of

UNCONVERTED = {"UInt32": np.uint32, "RawUInt32": np.uint32, "RawUInt16": np.uint16, "RawUInt8": np.uint8}
"""Formats whose bits nothing converts -> their type on the host; all others are float32 there."""


def host_array(row: Row, value: np.ndarray) -> np.ndarray:
    """Returns an entry of a queue as its binary takes it: bits that nothing converts as integers, others as float32."""
    return to_queue(value, tile_of(row)).astype(UNCONVERTED.get(row["df"], np.float32))


def to_queue(value: np.ndarray, tile: tuple[int, int]) -> np.ndarray:
    """Returns the elements that a queue of such tiles holds."""
    z, rows, cols = value.shape
    height, width = tile
    split = value.reshape(z, rows // TILE, TILE, cols // TILE, TILE)[:, :, :height, :, :width]
    return split.reshape(z, rows // TILE * height, cols // TILE * width)


def from_queue(value: np.ndarray, tile: tuple[int, int]) -> np.ndarray:
    """Returns a queue's contents in whole 32x32 tiles, with zeros where its tiles end."""
    z, rows, cols = value.shape
    height, width = tile
    split = value.reshape(z, rows // height, height, cols // width, width)
    fill = [(0, 0), (0, 0), (0, TILE - height), (0, 0), (0, TILE - width)]
    return np.pad(split, fill).reshape(z, rows // height * TILE, cols // width * TILE)
