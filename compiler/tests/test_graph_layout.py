"""The TMs that a permutation or a broadcast becomes, carried out on arrays, against NumPy's own transpose."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler.buda.graph import Tm
from opscope.compiler.translations.ttir_to_graph.layout import Layout, broadcast, permuted, regrouped
from opscope.simulator.kernels.buda import manipulate

Sizes = tuple[int, int, int]


def moved(array: np.ndarray, tms: tuple[Tm, ...]) -> np.ndarray:
    """What TMs do to `[z, rows, columns]`."""
    for tm in tms:
        z, r, c = array.shape
        n = tm.factor
        match tm.name:
            case "transpose":
                array = array.swapaxes(1, 2)
            case "hslice":
                array = array.reshape(z, r, n, c // n).swapaxes(1, 2).reshape(z * n, r, c // n)
            case "hstack":
                array = array.reshape(z // n, n, r, c).swapaxes(1, 2).reshape(z // n, r, n * c)
            case _:
                raise AssertionError(tm)
    return array


@pytest.mark.parametrize(
    ("layout", "order", "expected"),
    [
        (Layout((1, 128, 12, 64), 1, 2), (0, 2, 1, 3), "hslice(12)"),
        (Layout((1, 12, 128, 64), 2, 3), (0, 2, 1, 3), "hstack(12)"),
        (Layout((1, 12, 128, 64), 2, 3), (0, 1, 3, 2), "transpose"),
        (Layout((4, 12, 64, 32), 2, 3), (0, 2, 1, 3), "hstack(12)"),
        (Layout((1, 12, 128, 64), 2, 3), (0, 3, 1, 2), "transpose; hstack(12)"),
        (Layout((2, 64, 4, 96), 1, 2), (0, 2, 3, 1), "transpose"),
        (Layout((1, 1, 128, 64), 2, 3), (1, 0, 2, 3), ""),
        (Layout((1, 56, 56, 64), 1, 3), (0, 3, 1, 2), "transpose"),
    ],
)
def test_permutations_against_numpy(layout: Layout, order: tuple[int, ...], expected: str) -> None:
    permutation = permuted(layout, order)
    assert permutation is not None
    after, tms = permutation
    assert "; ".join(map(str, tms)) == expected
    array = np.arange(np.prod(layout.dims)).reshape(layout.dims)
    got = moved(array.reshape(layout.sizes), tms)
    assert got.shape == after.sizes
    assert np.array_equal(got.reshape(after.dims), array.transpose(order))


def test_permutations_that_no_tm_does() -> None:
    assert permuted(Layout((5, 12, 128, 64), 2, 3), (3, 0, 2, 1)) is None
    # Heads of 40 columns share tiles: a slice would cut through them.
    assert permuted(Layout((1, 128, 12, 40), 1, 2), (0, 2, 1, 3)) is None
    assert permuted(Layout((1, 12, 40, 64), 2, 3), (0, 3, 1, 2)) is None


@pytest.mark.parametrize(
    ("have", "want", "expected"),
    [
        ((1, 128, 40), (4, 32, 40), "vslice(4)"),
        ((6, 64, 40), (2, 192, 40), "vstack(3)"),
        ((2, 64, 40), (2, 64, 40), ""),
        ((1, 120, 40), (4, 30, 40), None),
        ((2, 48, 40), (1, 96, 40), None),
        ((1, 64, 40), (1, 40, 64), None),
    ],
)
def test_rows_are_cut_and_stacked_in_whole_tiles(have: Sizes, want: Sizes, expected: str | None) -> None:
    tms = regrouped(have, want)
    assert (tms if tms is None else "; ".join(map(str, tms))) == expected
    array = np.arange(np.prod(have)).reshape(have)
    for tm in tms or ():
        array = manipulate(array, str(tm))
    assert expected is None or np.array_equal(array, np.arange(np.prod(have)).reshape(want))


def test_a_reshape_keeps_its_groups_or_is_none() -> None:
    rows = Layout((1, 128, 768), 1, 2)
    assert rows.reshaped((128, 768)) == Layout((128, 768), 0, 1)
    split = rows.reshaped((1, 128, 12, 64))
    assert split is not None
    assert split.sizes == rows.sizes
    assert rows.reshaped((768, 128)) is None
    assert Layout.pixels((1, 56, 56, 64)).reshaped((3136, 64)) == Layout((3136, 64), 0, 1)


def test_broadcasts_repeat_whole_groups() -> None:
    scalar, column = Layout((1, 1, 1), 1, 2), Layout((1, 128, 1), 1, 2)
    full = Layout((12, 128, 100), 1, 2)
    expected = "broadcast(z, 12); tile_broadcast(r); broadcast(r, 4); tile_broadcast(c); broadcast(c, 4)"
    assert broadcast(scalar, full) == tuple(Tm.parse(tm) for tm in expected.split(";"))
    assert broadcast(column, Layout((1, 128, 32), 1, 2)) == (Tm("tile_broadcast", dim="c"),)
    assert broadcast(full, full) == ()
    assert broadcast(Layout((4, 128, 100), 1, 2), full) is None
