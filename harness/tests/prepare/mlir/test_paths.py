"""Which value a location stands for, and how it is to be read."""

from __future__ import annotations

import numpy as np

from opscope.base.tests.each import each
from opscope.harness.prepare.paths import moved, moved_back, moved_shape, moves_of, path_of


@each(
    ("location", "path", "moves"),
    [
        ("main/12 (net.py:7)", "main/12", ()),
        ("main/7@relu/0", "main/7@relu/0", ()),
        ("main/40.body/3 = permute[0,3,1,2] (net.py:7)", "main/40.body/3", (("permute", (0, 3, 1, 2)),)),
        ("main/1 = reshape[2,8] permute[1,0]", "main/1", (("reshape", (2, 8)), ("permute", (1, 0)))),
        ("main/1 = reshape[]", "main/1", (("reshape", ()),)),
        ("part of main/12 (net.py:7)", "main/12", None),
        ("jit(f)/relu = permute[1,0]", "", (("permute", (1, 0)),)),
        ("", "", ()),
    ],
)
def test_a_location_names_a_path_and_the_moves_to_its_value(location, path, moves):
    assert (path_of(location), moves_of(location)) == (path, moves)


def test_moved_values_are_moved_back():
    moves = (("permute", (2, 0, 1)), ("reshape", (4, 6)), ("permute", (1, 0)))
    device = np.random.default_rng(0).normal(size=(2, 3, 4))
    value = moved(device, moves)
    assert value.shape == moved_shape(device.shape, moves) == (6, 4)
    np.testing.assert_array_equal(moved_back(value, moves, device.shape), device)
    assert moved_shape((2, 3), moves) is None
