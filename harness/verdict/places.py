"""Where an error lies: sums of z^2 over the structures of a tiled tensor, and their names.

The device holds the last two dims in tiles of 32x32, each four faces of 16x16; a vector is one row. Kernels err in such
structures: a face row not written, a tile missing, the last row padded away, a batch entry swapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

FACE, TILE = 16, 32


@dataclass(frozen=True)
class Group:
    """All structures of one kind: their names, the sum of z^2 and the number of elements of each."""

    kind: str
    sums: np.ndarray
    counts: np.ndarray
    dims: tuple[str, ...]
    """What the axes of `sums` count."""

    def name(self, at: int) -> str:
        """The name of one structure, such as `tile (0, 3) of batch 2`."""
        place = np.unravel_index(at, self.sums.shape)
        parts = [f"{dim} {int(i)}" for dim, i in zip(self.dims, place, strict=True)]
        return f"{self.kind} ({', '.join(parts)})" if parts else self.kind


def name_of(flat: int, shape: tuple[int, ...]) -> str:
    """The place of one element: its tile (batch entry, row, column), face and row of the face."""
    batch, row, column = _split(flat, shape)
    face = 2 * (row % TILE // FACE) + column % TILE // FACE
    return f"tile ({batch}, {row // TILE}, {column // TILE}), face {face}, row {row % FACE}"


def index_of(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element."""
    return tuple(int(i) for i in np.unravel_index(flat, shape)) if shape else ()


def _split(flat: int, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Batch entry, row and column of an element."""
    rows, columns = _matrix(shape)
    rest, column = divmod(flat, columns)
    return (*divmod(rest, rows), column)


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """The last two dims."""
    return shape[-2] if len(shape) > 1 else 1, shape[-1] if shape else 1


def groups(face_rows: np.ndarray, last_column: np.ndarray, shape: tuple[int, ...]) -> Iterator[Group]:
    """All structures of a tensor. `face_rows` holds z^2 summed over 16 columns, one row per row of the tensor;
    `last_column` holds z^2 of the last one."""
    rows, columns = _matrix(shape)
    blocks = face_rows.shape[-1]
    cube = face_rows.reshape(-1, rows, blocks)
    widths = np.minimum(FACE, columns - FACE * np.arange(blocks))
    ones = np.broadcast_to(widths, (rows, blocks))
    yield Group("face row", cube, np.broadcast_to(widths, cube.shape), ("batch", "row", "block"))
    face, face_count = _by_rows(cube, FACE), _by_rows(ones[None], FACE)
    yield Group("face", face, np.broadcast_to(face_count, face.shape), ("batch", "row", "column"))
    tile, tile_count = _by_columns(_by_rows(cube, TILE)), _by_columns(_by_rows(ones[None], TILE))
    yield Group("tile", tile, np.broadcast_to(tile_count, tile.shape), ("batch", "row", "column"))
    if rows > 1:
        last = cube[:, -1].sum(axis=-1)
        yield Group("last row", last, np.full(last.shape, columns), ("batch",))
    if columns > 1:
        column = last_column.reshape(-1, rows).sum(axis=-1)
        yield Group("last column", column, np.full(column.shape, rows), ("batch",))
    if len(cube) > 1:
        batch = cube.sum(axis=(1, 2))
        yield Group("batch", batch, np.full(batch.shape, rows * columns), ("entry",))


def _by_rows(cube: np.ndarray, size: int) -> np.ndarray:
    return np.add.reduceat(cube, np.arange(0, cube.shape[1], size), axis=1)


def _by_columns(cube: np.ndarray) -> np.ndarray:
    return np.add.reduceat(cube, np.arange(0, cube.shape[2], 2), axis=2)


def blocks_of(size: np.ndarray) -> np.ndarray:
    """The largest of each block of 16 sizes along the last dim, which share an exponent in a block format; in their
    shape."""
    if not size.ndim:
        return size
    columns = size.shape[-1]
    if columns % FACE:
        largest = np.maximum.reduceat(size, np.arange(0, columns, FACE), axis=-1)
        return np.repeat(largest, FACE, axis=-1)[..., :columns]
    largest = size.ravel()
    for _ in range(FACE.bit_length() - 1):  # three times as fast as a maximum over an axis of 16
        largest = np.maximum(largest[0::2], largest[1::2])
    return np.repeat(largest, FACE).reshape(size.shape)
