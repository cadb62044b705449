"""Pickers of convolutions against what JAX gathers; shares against counts over the dense matrix."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from opscope.compiler.buda.sparse_pattern import SparsePattern, SparseShare, Windows, picked_pixels
from opscope.compiler.errors import CompilerInputError


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation"),
    [
        # quick: [all]
        pytest.param((9, 7), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), marks=pytest.mark.slow, id="edges"),
        pytest.param((10, 12), (3, 2), (2, 3), ((0, 2), (1, 0)), (1, 1), marks=pytest.mark.slow, id="strides"),
        pytest.param((8, 8), (2, 2), (1, 2), ((0, 0), (0, 0)), (3, 2), marks=pytest.mark.slow, id="holes"),
        pytest.param((10, 12), (3, 2), (2, 3), ((0, 2), (1, 0)), (3, 2), id="all"),
    ],
)
def test_picker_reads_the_pixels_that_a_convolution_reads(size, kernel, stride, padding, dilation) -> None:
    image = jnp.arange(1, size[0] * size[1] + 1, dtype=jnp.float32).reshape(1, 1, *size)
    patches = lax.conv_general_dilated_patches(image, kernel, stride, padding, rhs_dilation=dilation)
    taps = np.asarray(patches).astype(int).reshape(kernel[0] * kernel[1], -1)
    picked, per_tap = picked_pixels(size, kernel, stride, padding, dilation)
    wanted = {(tap * per_tap + i, value - 1) for (tap, i), value in np.ndenumerate(taps) if value}
    assert set(picked) == wanted
    assert len(picked) == len(wanted)


def dense(ones: list[tuple[int, int]], rows: int, cols: int) -> np.ndarray:
    matrix = np.zeros((rows, cols), bool)
    matrix[tuple(np.array(ones).T)] = True
    return matrix


def tiles_of(matrix: np.ndarray) -> np.ndarray:
    rows, cols = matrix.shape
    return matrix.reshape(rows // 32, 32, cols // 32, 32).swapaxes(1, 2)


def test_tiles_are_those_of_the_dense_matrix() -> None:
    ones, per_tap = picked_pixels((16, 16), (3, 3), (1, 1), ((1, 1), (1, 1)))
    pattern = SparsePattern.of(ones, 9 * per_tap, 256, taps=9)
    tiles = tiles_of(dense(ones, 9 * per_tap, 256))
    occupied = {(int(r), int(c)) for r, c in np.argwhere(tiles.any(axis=(2, 3)))}
    assert {(r, c) for r, c, _ in pattern.tiles} == occupied
    assert pattern.unique_tiles == 1 + len({tiles[r, c].tobytes() for r, c in occupied})
    for one in pattern.tiles:
        for other in pattern.tiles:
            same = np.array_equal(tiles[one[:2]], tiles[other[:2]])
            assert same == (one[2] == other[2])


@pytest.mark.parametrize("z_major", [False, True])
def test_share_counts_the_busiest_core(z_major: bool) -> None:
    ones, per_tap = picked_pixels((16, 32), (2, 2), (1, 1), ((0, 1), (0, 1)))
    pattern = SparsePattern.of(ones, 4 * per_tap, 512, taps=4)
    grid_r, t, u_rt, u_kt = 2, 2, 2, 4
    rows = tiles_of(dense(ones, 4 * per_tap, 512)).any(axis=(2, 3))
    if z_major:  # piece, core, row of the piece, tap
        cut = rows.reshape(4, t, grid_r, -1, 16).transpose(1, 2, 3, 0, 4).reshape(t, grid_r, -1, 16)
    else:
        cut = rows.reshape(t, grid_r, -1, 16)
    blocks = cut.reshape(t, grid_r, cut.shape[2] // u_rt, u_rt, 16 // u_kt, u_kt).any(axis=(3, 5))
    share = pattern.share(grid_r, t, z_major, u_rt, u_kt)
    assert share.nz_tiles == cut.sum(axis=(0, 2, 3)).max()
    assert share.nz_ublocks == blocks.sum(axis=(0, 2, 3)).max()
    assert share.nz_strips == blocks.any(axis=2).sum(axis=(0, 2)).max()


def test_pieces_may_only_go_forward() -> None:
    """Every tap starts at the first pixels again, unless a piece is the same rows of all taps."""
    pattern = SparsePattern.of_convolution((16, 16), (4, 1), (1, 1), ((0, 3), (0, 0)))
    sizes = (1, 2, 4, 8)
    assert pattern.legal_inner_tiles(1, 1, False, sizes) == sizes
    assert pattern.legal_inner_tiles(1, 2, False, sizes) == (8,)
    assert pattern.legal_inner_tiles(1, 2, True, sizes) == (2, 4, 8)
    assert pattern.legal_inner_tiles(1, 3, True, sizes) == ()


def test_an_index_names_a_tile_and_its_place() -> None:
    pattern = SparsePattern.of_convolution((16, 16), (1, 1), (1, 1), ((0, 0), (0, 0)))
    assert pattern.unique_tiles == 2
    assert pattern.most_inner_tiles(1, 1) == 1 << 14
    assert pattern.most_inner_tiles(1, 8) == 1 << 11
    assert pattern.most_inner_tiles(1 << 13, 8) == 0

    assert [pattern.most_inner_tiles(1 << 13, u_rt) for u_rt in (1, 2, 3, 4)] == [4, 2, 0, 0]
    assert SparsePattern(1, 1, ()).unique_tiles == 1


def test_a_share_is_encoded_by_strips_blocks_and_tiles() -> None:
    """6 bytes for each strip, and for each empty piece's; 2 for each block and tile."""
    diagonal = SparsePattern.of_convolution((16, 16), (1, 1), (1, 1), ((0, 0), (0, 0)))
    assert diagonal.share(1, 1, False, 2, 2) == SparseShare(8, 4, 4, 2, 6 * 4 + 2 * (4 + 8))
    assert diagonal.share(2, 1, False, 1, 1) == SparseShare(4, 4, 4, 2, 6 * 4 + 2 * (4 + 4))
    one = SparsePattern.of([(0, 0), (96, 31)], 128, 32)
    assert (one.tiles, one.taps, one.unique_tiles) == (((0, 0, 1), (3, 0, 2)), 1, 3)
    assert one.share(1, 4, False, 1, 1) == SparseShare(2, 2, 2, 3, 6 * 4 + 2 * (2 + 2))
    # The busiest of two rows of cores in each count: the second has no tile, but a strip for each piece.
    corner = SparsePattern.of([(0, 0), (32, 32)], 128, 64)
    assert corner.share(2, 1, False, 1, 1) == SparseShare(2, 2, 2, 2, 6 * 2 + 2 * (2 + 2))
    with pytest.raises(CompilerInputError, match=r"of 4 rows: expected a grid and a t that divide it, got 3 and 1$"):
        one.share(3, 1, False, 1, 1)


def test_windows_are_dense_by_default() -> None:
    size, kernel, stride, padding = (5, 7), (3, 2), (2, 1), ((1, 0), (0, 2))
    assert Windows(size, kernel, stride, padding).dilation == (1, 1)
    assert picked_pixels(size, kernel, stride, padding) == picked_pixels(size, kernel, stride, padding, (1, 1))
    pattern = SparsePattern.of_convolution(size, kernel, stride, padding)
    assert pattern.windows == Windows(size, kernel, stride, padding, (1, 1))
    assert pattern.taps == 6


def test_only_whole_tiles() -> None:
    with pytest.raises(CompilerInputError, match=r"sparse matrix: expected whole tiles, got 33x32 elements"):
        SparsePattern.of([(0, 0)], 33, 32)
    with pytest.raises(CompilerInputError, match=r"sparse matrix: expected whole tiles, got 32x33 elements"):
        SparsePattern.of([(0, 0)], 32, 33)
