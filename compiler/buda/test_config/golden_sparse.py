"""The product of sparse tiles with activations, as its encoding says (tt-budabackend: ops/mm_bare.cpp)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from opscope.compiler.buda.test_config.rows import NotModelledError, Row, attributes_of
from opscope.compiler.buda.test_config.sparse_stimulus import LAST_IN_ROW, LAST_IN_TILE, TILE, WORD, Identity
from opscope.compiler.errors import CompilerInputError


def identity_matmul(row: Row, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the product, and the bias added; operands are sparse tiles side by side, activations, the encoding.

    Raises NotModelledError for cores that share columns of sparse tiles, CompilerInputError for what is no encoding.
    """
    if int(attributes_of(row).get("fracture_factor") or 1) != 1:
        raise NotModelledError("matmul with identity and fracture_factor")
    sparse, activations, encoding, *bias = operands
    sizes = Identity.of({**row, "act_t": attributes_of(row).get("act_t") or activations.shape[0]})
    high = sizes.mblock_m * sizes.ublock_rt * TILE
    result = np.zeros((sizes.t, sizes.rows * high, activations.shape[2]))
    flat = activations.reshape(-1, activations.shape[2])
    for core in range(sizes.rows):
        tiles = _tiles(sparse, core, sizes.rows)
        codes = _tiles(encoding, core, sizes.rows).reshape(-1, TILE * TILE)
        for t, out_row, inner, tile in _entries(codes, sizes):
            _within(tile, len(tiles), "a sparse tile")
            _within(inner, len(flat) // TILE, "a row of tiles of the activations")
            _within(out_row, high // TILE, "a row of tiles of a core's result")
            rows = slice(core * high + out_row * TILE, core * high + (out_row + 1) * TILE)
            result[t, rows] += tiles[tile] @ flat[inner * TILE : (inner + 1) * TILE]
    return result + np.repeat(bias[0][:, ::TILE], TILE, 1) if attributes_of(row).get("bias") else result


def _within(number: int, count: int, what: str) -> None:
    """Raises CompilerInputError for a number that an encoding has and that is none of `count`."""
    if number >= count:
        raise CompilerInputError(
            f"encoding: expected {what} from 0 to {count - 1}, got {number}; try a stimulus of type sparse_encoding"
        )


def _tiles(value: np.ndarray, core: int, cores: int) -> np.ndarray:
    """The 32x32 tiles of one row of cores, in their order."""
    part = np.split(value[0], cores, 0)[core]
    rows, cols = part.shape
    return part.reshape(rows // TILE, TILE, cols // TILE, TILE).transpose(0, 2, 1, 3).reshape(-1, TILE, TILE)


def _entries(codes: np.ndarray, sizes: Identity) -> Iterator[tuple[int, int, int, int]]:
    """Yields t, row of tiles of the result, row of tiles of the activations, and sparse tile, of each small product.

    Raises CompilerInputError for words that end too early.
    """
    t = 0
    for code in codes:
        words = code.astype(np.uint32).view(np.uint16).tolist()
        at = 0
        while t < sizes.t:
            _within(at + 2, len(words), "a word")
            head, blocks = words[at] | words[at + 1] << WORD, words[at + 2]
            at += 3
            for _ in range(blocks):
                _within(at, len(words), "a word")
                count, block = words[at] >> sizes.block_bits, words[at] & ((1 << sizes.block_bits) - 1)
                at += 1
                for word in words[at : at + (count or 1 << (WORD - sizes.block_bits))]:
                    place = word & ((1 << sizes.place_bits) - 1)
                    row, inner = place >> sizes.inner_bits, place & ((1 << sizes.inner_bits) - 1)
                    index = head & (LAST_IN_ROW - 1)
                    yield t, block * sizes.ublock_rt + row, index * sizes.u_kt + inner, word >> sizes.place_bits
                at += count or 1 << (WORD - sizes.block_bits)
            t += bool(head & LAST_IN_ROW)
            if head & LAST_IN_TILE:
                break
    if t < sizes.t:
        raise CompilerInputError(f"encoding: expected strips for {sizes.t} matrices, got {t}")


__all__ = ["identity_matmul"]
