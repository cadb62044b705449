"""The product of sparse tiles with activations: which tile lies where is data, in tt-budabackend's encoding.

A strip is `u_kt` tiles of the inner dimension. Its words: index (low, high; bit 30 of both: the last of its t, bit 31:
the last of its tile), number of micro blocks; for each block a word with its number and the count of its tiles, and for
each tile a word with its own number and its place in the block (tt-budabackend: hlks/inc/matmul_ident.h).
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.formats import TILE
from opscope.compiler.target.program import EncodedMatmulParams
from opscope.simulator.kernels.matmul import product_of
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of

INDEX = (1 << 30) - 1
LAST_OF_T, LAST_OF_TILE = 1 << 30, 1 << 31
TILE_WORDS = 2 * TILE * TILE
Place = tuple[int, int]
"""t and row of tiles of the result."""


def decoded(codes: np.ndarray, params: EncodedMatmulParams) -> dict[Place, list[tuple[int, int]]]:
    """Returns, for each tile row of one row of cores, the sparse tiles and the rows of activations that they meet.

    `codes` has a row of words per encoded tile. Raises ValueError for an encoding that ends too early, or that
    names a row of another core.
    """
    places: dict[Place, list[tuple[int, int]]] = {}
    place_bits = 16 - params.tile_bits
    inner_bits = max(1, (params.u_kt - 1).bit_length())
    number, at, t = 0, 0, 0
    while t < params.t:
        if number >= len(codes) or at + 3 > TILE_WORDS:
            raise ValueError(f"encoding: expected strips for {params.t} matrices, got an end in matrix {t}")
        words = codes[number]
        head, blocks = int(words[at]) | int(words[at + 1]) << 16, int(words[at + 2])
        at += 3
        for _ in range(blocks):
            block, count = int(words[at]) & ((1 << params.block_bits) - 1), int(words[at]) >> params.block_bits
            count = count or 1 << (16 - params.block_bits)
            for word in words[at + 1 : at + 1 + count].tolist():
                place = word & ((1 << place_bits) - 1)
                row = block * params.ublock_rt + (place >> inner_bits)
                if row >= params.mblock_m * params.ublock_rt:
                    raise ValueError(f"encoding: a row of tiles below {params.mblock_m * params.ublock_rt}, got {row}")
                inner = (head & INDEX) * params.u_kt + (place & ((1 << inner_bits) - 1))
                places.setdefault((t, row), []).append((word >> place_bits, inner))
            at += 1 + count
        if head & LAST_OF_TILE:
            number, at = number + 1, 0
        t += bool(head & LAST_OF_T)
    return places


def _tiles(image: np.ndarray, cores: int) -> np.ndarray:
    """The 32x32 tiles of each row of cores, row by row."""
    rows, cols = image.shape[1] // TILE // cores, image.shape[2] // TILE
    split = image[0].reshape(cores, rows, TILE, cols, TILE).transpose(0, 1, 3, 2, 4)
    return split.reshape(cores, rows * cols, TILE, TILE)


@kernel("encoded_matmul", EncodedMatmulParams, unit="matrix", arity=3)
def encoded_matmul(images: Images, call: Call) -> np.ndarray:
    """Sparse tiles times activations, each where the encoding says."""
    params = params_of(call, EncodedMatmulParams)
    sparse, activations, encoding = images
    tiles, codes = _tiles(sparse, params.cores), _tiles(encoding, params.cores)
    rows = activations.reshape(-1, TILE, activations.shape[2])
    result = np.zeros(call.outputs[0].shape, np.float32)
    for core in range(params.cores):
        words = np.ascontiguousarray(codes[core].reshape(-1, TILE * TILE), dtype=np.uint32).view(np.uint16)
        for (t, row), meets in decoded(words, params).items():
            left = np.concatenate([tiles[core][tile] for tile, _ in meets], axis=1)
            right = np.concatenate([rows[inner] for _, inner in meets], axis=0)
            top = (core * params.mblock_m * params.ublock_rt + row) * TILE
            result[t, top : top + TILE] = product_of(left, right, call)
    return result
