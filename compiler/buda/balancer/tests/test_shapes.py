"""Shapes by hand: pieces in time, shares of cores, buffers in bytes."""

from __future__ import annotations

import pytest

from opscope.compiler.buda.balancer.op_model import l1_usage
from opscope.compiler.buda.balancer.shapes import (
    BlockShape,
    BufferModel,
    Grid,
    StreamFactor,
    UBlock,
    either_divides,
    largest_divisor,
)
from opscope.compiler.buda.graph import OpSpec, TensorShape


def test_the_largest_divisor_within_a_limit() -> None:
    assert [largest_divisor(12, limit) for limit in (-1, 0, 1, 2, 5, 6, 11, 12, 13)] == [1, 1, 1, 2, 4, 6, 6, 12, 12]


def test_one_of_two_divides_the_other() -> None:
    pairs = [(6, 3), (3, 6), (4, 6), (6, 4), (5, 5), (1, 7), (7, 1)]
    assert [either_divides(*pair) for pair in pairs] == [True, True, False, False, True, True, True]


@pytest.mark.parametrize(
    ("direction", "by_rows", "z_major", "order", "transposed"),
    [
        ("R", True, False, "r", "C"),
        ("C", False, False, "c", "R"),
        ("RZ", True, True, "r", "CZ"),
        ("CZ", False, False, "c", "RZ"),
    ],
)
def test_directions_of_pieces(direction: str, by_rows: bool, z_major: bool, order: str, transposed: str) -> None:
    stream = StreamFactor(direction, 2, 3)
    assert (stream.t, stream.none, stream.by_rows, stream.z_major) == (6, False, by_rows, z_major)
    assert [stream.follows(each) for each in "rc"] == [order == "r", order == "c"]
    assert stream.transposed == StreamFactor(transposed, 3, 2)
    assert StreamFactor() == StreamFactor("R", 1, 1)
    assert [StreamFactor(direction, r, c).none for r, c in ((1, 1), (2, 1), (1, 2))] == [True, False, False]


def test_a_share_of_a_tensor_and_its_buffers() -> None:
    """24 x 30 tiles on 2 x 3 cores in 3 x 1 pieces: 4 x 10 tiles each, in micro blocks of 2 x 5."""
    block = BlockShape.of(TensorShape(1, 5, 24, 30), Grid(2, 3), StreamFactor("R", 3, 1), UBlock(2, 5))
    assert block == BlockShape(15, 2, 2, UBlock(2, 5))
    assert (block.ublocks, block.tiles, block.rt, block.ct) == (4, 40, 4, 10)
    tall = BlockShape.of(TensorShape(1, 1, 24, 30), Grid(2, 3), StreamFactor("C", 1, 2), UBlock(3, 1))
    assert tall == BlockShape(2, 4, 5, UBlock(3, 1))
    assert (tall.ublocks, tall.tiles, tall.rt, tall.ct) == (20, 60, 12, 5)
    whole, part = BufferModel.whole(block, 3, "Float16_b"), BufferModel(block, 10, 2, "Bfp8_b")
    assert (whole.held, whole.l1_size_tiles, whole.l1_bytes, whole.total_bytes) == (40, 120, 120 * 2080, 600 * 2080)
    assert (part.l1_size_tiles, part.l1_bytes, part.total_bytes) == (20, 20 * 1120, 600 * 1120)
    assert (Grid(2, 3).volume, Grid(2, 3).perimeter, str(Grid(2, 3))) == (6, 5, "2x3")


def test_l1_holds_every_t_of_parameters_and_of_what_accumulates() -> None:
    """Blocks of one tile of 2080 bytes, three of them one after the other."""
    one, three = (BufferModel.whole(BlockShape(t, 1, 1, UBlock(1, 1)), 1, "Float16_b") for t in (1, 3))
    wide = BufferModel.whole(BlockShape(1, 1, 10, UBlock(1, 1)), 10, "Float16_b")
    spec, summed = OpSpec("matmul"), OpSpec("matmul", gradient=True)
    assert l1_usage(spec, (), three, (), ()) == 2080
    assert l1_usage(summed, (), three, (), ()) == 3 * 2080
    assert l1_usage(spec, (three, three), one, (None, three), (wide,)) == (2 + 1 + 3 + 100) * 2080
