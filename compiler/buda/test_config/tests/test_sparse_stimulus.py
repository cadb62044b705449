"""Encodings of sparse tiles: strips by hand, word by word, and products against a dense matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from opscope.compiler.buda.test_config.golden import identity_matmul
from opscope.compiler.buda.test_config.sparse_stimulus import (
    Identity,
    Strip,
    _counted,
    _drawn,
    _packed,
    encoding_tiles,
    sparse_tiles,
)
from opscope.compiler.errors import CompilerInputError

ATTRIBUTES = {"m_k": 3, "u_kt": 2, "num_sparse_tiles": 3, "num_index_tiles": 2, "sparse_tile_ptr_bits": 8}
OP: dict[str, Any] = {"grid_size": [2, 1], "t": 2, "mblock": [2, 1], "ublock": [2, 1], "attributes": ATTRIBUTES}
ONE_T = Identity.of({**OP, "act_t": 1})
COUNTS = {"type": "sparse_encoding_nz_counts", "nz_strips": 4, "nz_ublocks": 5, "nz_tiles": 7}


class Draw:
    """Draws what is given, in turn, and of whole numbers always the largest."""

    def __init__(self, *shares: float) -> None:
        self.shares = list(shares)

    def random(self) -> float:
        return self.shares.pop(0) if self.shares else 0.5

    def integers(self, end: int) -> int:
        return end - 1


def listed(strips: list[Strip]) -> list[tuple[int, bool, list[tuple[int, list[tuple[int, int]]]]]]:
    return [(strip.index, strip.last_in_row, strip.blocks) for strip in strips]


def test_sizes_come_from_the_op_first() -> None:
    assert Identity(2, 2, 1, 3, 2, 2, 2, 3, 2, 8, 8) == ONE_T
    assert Identity.of(OP).act_t == 2
    assert Identity.of({**OP, "attributes": {**ATTRIBUTES, "act_t": 5}}).act_t == 5
    assert Identity.of({**OP, "act_t": 7, "attributes": {**ATTRIBUTES, "act_t": 5}}).act_t == 7
    assert Identity.of({**OP, "attributes": {**ATTRIBUTES, "sparse_ublock_idx_bits": 1}}).block_bits == 1
    assert replace(ONE_T, tile_bits=10).place_bits == 6
    assert [replace(ONE_T, u_kt=count).inner_bits for count in (1, 2, 3, 4, 5)] == [1, 1, 2, 2, 3]
    with pytest.raises(CompilerInputError, match="expected 'u_kt' of a matmul with identity"):
        Identity.of({**OP, "attributes": {"m_k": 3, "sparse_tile_ptr_bits": 8}})


def test_strips_by_frequencies_of_zeros() -> None:
    draw = cast("np.random.Generator", Draw())
    full = [(0, [(1, 0), (2, 1), (0, 2), (1, 3)]), (1, [(2, 0), (0, 1), (1, 2), (2, 3)])]
    strips = _drawn(ONE_T, {}, draw)
    # Three strips for two t: the second begins where the first ended.
    assert [(strip.index, strip.last_in_row) for strip in strips] == [(0, False), (1, True), (1, False), (2, True)]
    assert strips[0].blocks == full
    assert [len(tiles) for strip in strips for _, tiles in strip.blocks] == [4] * 8
    assert [strip.index for strip in _drawn(replace(ONE_T, act_t=2), {}, draw)] == [0, 1, 4, 5]
    none = {"zero_strip_freq": 1.0}
    assert listed(_drawn(ONE_T, none, draw)) == [(0, True, []), (0, True, [])]
    assert listed(_drawn(replace(ONE_T, act_t=2), none, draw)) == [(0, True, []), (3, True, [])]
    # A t whose strips are all zero has an empty one, with the index of the one before.
    some = cast("np.random.Generator", Draw(0.9, *[0.5] * 7, 0.9, *[0.5] * 7, 0.1, 0.1))
    assert [strip.index for strip in _drawn(ONE_T, {"zero_strip_freq": 0.2}, some)] == [0, 1, 1]
    few = _drawn(ONE_T, {"zero_ublock_freq": 1.0, "zero_tile_freq": 1.0}, draw)
    assert [strip.blocks for strip in few] == [[(1, [(1, 3)])], [(1, [(2, 3)])], [(1, [(0, 3)])], [(1, [(1, 3)])]]


def test_strips_by_counts() -> None:
    assert listed(_counted(ONE_T, COUNTS)) == [
        (0, False, [(0, [(1, 0), (2, 1)]), (1, [(0, 0), (1, 1)])]),
        (1, True, [(0, [(2, 0)])]),
        (1, False, [(0, [(0, 0)])]),
        (2, True, [(0, [(1, 0)])]),
    ]
    assert [strip.index for strip in _counted(replace(ONE_T, act_t=2), COUNTS)] == [0, 1, 4, 5]
    for key, least, most in (("nz_strips", 2, 4), ("nz_ublocks", 4, 8), ("nz_tiles", 5, 20)):
        for number in (least - 1, most + 1):
            with pytest.raises(CompilerInputError, match=rf"{key}: expected {least} to {most}, got {number}"):
                _counted(ONE_T, {**COUNTS, key: number})
    for counts in ((2, 2, 2), (4, 8, 32)):
        strips = _counted(ONE_T, dict(zip(("nz_strips", "nz_ublocks", "nz_tiles"), counts, strict=True)))
        blocks = [tiles for strip in strips for _, tiles in strip.blocks]
        assert (len(strips), len(blocks), sum(map(len, blocks))) == counts


def words(tile: np.ndarray, count: int) -> list[int]:
    assert not tile.view(np.uint16)[count:].any()
    return tile.view(np.uint16)[:count].tolist()


def test_words_of_an_encoding() -> None:
    strips = _counted(ONE_T, COUNTS)
    assert [strip.words for strip in strips] == [9, 5, 5, 5]
    first, second, third = _packed(strips, ONE_T, 12)
    assert words(first, 9) == [0, 0x8000, 2, 0x200, 0x100, 0x201, 0x201, 0x000, 0x101]
    assert words(second, 10) == [1, 0x4000, 1, 0x100, 0x200, 1, 0x8000, 1, 0x100, 0x000]
    assert words(third, 5) == [2, 0xC000, 1, 0x100, 0x100]
    assert [len(list(_packed(strips, ONE_T, size))) for size in (9, 10, 13, 14, 19, 24)] == [4, 3, 3, 2, 2, 1]
    with pytest.raises(CompilerInputError, match="expected strips of at most 8 words, got 9"):
        list(_packed(strips, ONE_T, 8))
    # Sixteen tiles are more than four bits can say.
    many = Strip(70000, [(3, [(5, 1)] * 16), (4, [(6, 0)] * 15)])
    (tile,) = _packed([many], replace(ONE_T, tile_bits=10, block_bits=12), 99)
    assert words(tile, 36)[:5] == [70000 & 0xFFFF, 0x8001, 2, 3, 5 << 6 | 1]
    assert words(tile, 36)[20:22] == [15 << 12 | 4, 6 << 6]


def test_an_encoding_fills_its_queue() -> None:
    queue = {"t": 1, "grid_size": [2, 1], "mblock": [1, 2], "ublock": [1, 1]}
    draw = np.random.default_rng(0)
    rule = {**COUNTS, "enc_tile_byte_size": 28}
    value = encoding_tiles(queue, rule, {**OP, "act_t": 1}, draw)
    tiles = [tile.astype(np.uint32).reshape(-1) for tile in _packed(_counted(ONE_T, COUNTS), ONE_T, 14)]
    for core in (0, 1):
        for at in (0, 1):
            part = value[0, core * 32 : core * 32 + 32, at * 32 : at * 32 + 32]
            np.testing.assert_array_equal(part.reshape(-1), tiles[at])
    one = encoding_tiles(queue, {**rule, "enc_tile_byte_size": 48}, {**OP, "act_t": 1}, draw)
    assert one[0, :, :32].any()
    assert not one[0, :, 32:].any()  # filled up with empty tiles
    with pytest.raises(CompilerInputError, match="num_index_tiles: expected 3 tiles for the encoding, got 2"):
        encoding_tiles(queue, {**rule, "enc_tile_byte_size": 24}, {**OP, "act_t": 1}, draw)
    with pytest.raises(CompilerInputError, match="expected 4 encoded tiles, got a queue of 1x64x32"):
        encoding_tiles({**queue, "mblock": [1, 1]}, rule, {**OP, "act_t": 1}, draw)


@pytest.mark.parametrize(("act_t", "bits"), [(1, 0), (2, 11)])
def test_a_product_is_that_of_the_dense_matrix(act_t: int, bits: int) -> None:
    """The matrix is put together from the strips, not from their words."""
    attributes = {**ATTRIBUTES, "sparse_ublock_idx_bits": bits}
    op = {**OP, "attributes": attributes}
    sizes = Identity.of({**op, "act_t": act_t})
    rng = np.random.default_rng(1)
    rule = {**COUNTS, "enc_tile_byte_size": 28}
    queue = {"t": 1, "grid_size": [2, 1], "mblock": [1, 2], "ublock": [1, 1]}
    encoding = encoding_tiles(queue, rule, {**op, "act_t": act_t}, rng)
    sparse = sparse_tiles({"t": 1, "grid_size": [2, 1], "mblock": [1, 3], "ublock": [1, 1]}, rng)
    assert (sparse.reshape(64, 3, 32).sum(axis=2) == 1).all()
    activations = rng.standard_normal((act_t, 6 * 32, 32))
    dense, t = np.zeros((2, 2 * 128, act_t * 6 * 32)), 0
    for strip in _counted(sizes, COUNTS):
        for block, tiles in strip.blocks:
            for tile, place in tiles:
                row, inner = block * 2 + place // 2, strip.index * 2 + place % 2
                for core in (0, 1):
                    at = core * 128 + row * 32
                    dense[t, at : at + 32, inner * 32 : inner * 32 + 32] += sparse[
                        0, core * 32 : core * 32 + 32, tile * 32 : tile * 32 + 32
                    ]
        t += strip.last_in_row
    np.testing.assert_allclose(
        identity_matmul(op, [sparse, activations, encoding]), dense @ activations.reshape(-1, 32), atol=1e-12
    )
