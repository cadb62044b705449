"""Placement against TT-Buda's own expectations (its placer's unit tests: grids, epochs, transposes), and invariants."""

from __future__ import annotations

import random

import pytest

from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.placer.epochs import Epoch, OpToPlace, PlacerOptions, harvested_grid, place
from opscope.compiler.errors import CompilerInputError

CHIP = Grid(10, 12)


def ops(*grids: tuple[int, int], kinds: str = "") -> list[OpToPlace]:
    names = {"f": "forward", "b": "backward"}
    return [
        OpToPlace(f"matmul{i}", Grid(*grid), names[kinds[i]] if kinds else "forward") for i, grid in enumerate(grids)
    ]


@pytest.mark.parametrize(
    ("todo", "chip", "options", "epochs"),
    [
        (ops(*[(1, 1)] * 3), CHIP, PlacerOptions(), 1),
        (ops(*[(1, 1)] * 13), CHIP, PlacerOptions(), 1),
        (ops(*[(10, 6)] * 4), CHIP, PlacerOptions(), 2),
        (ops((10, 6), (10, 6), kinds="fb"), CHIP, PlacerOptions(), 2),
        (ops((10, 6), (10, 6)), CHIP, PlacerOptions(chip_breaks=("matmul1",), chips=2), 2),
        (ops(*[(2, 2)] * 4), CHIP, PlacerOptions(epoch_breaks=("matmul1", "matmul2")), 3),
        (ops(*[(5, 6)] * 3), Grid(5, 12), PlacerOptions(), 2),
    ],
    ids=["single row", "multiple rows", "multiple epochs", "passes", "two chips", "epoch breaks", "harvested rows"],
)
def test_epoch_counts(todo: list[OpToPlace], chip: Grid, options: PlacerOptions, epochs: int) -> None:
    assert len(place(todo, chip, options)) == epochs


def test_a_tall_op_is_laid_beside_a_low_one() -> None:
    (epoch,) = place(ops((2, 6), (3, 2)), CHIP)
    second = epoch.placements[1]
    assert (second.grid, second.transposed, (second.row, second.col)) == (Grid(2, 3), True, (0, 6))
    (epoch,) = place(ops((2, 6), (3, 2)), CHIP, PlacerOptions(transpose=False))
    assert epoch.placements[1].grid == Grid(3, 2)


def test_chips_take_turns() -> None:
    breaks = PlacerOptions(chip_breaks=("matmul1", "matmul2"), chips=2)
    assert [epoch.chip for epoch in place(ops(*[(2, 2)] * 3), CHIP, breaks)] == [0, 1, 0]


def overlaps(epoch: Epoch) -> bool:
    cores = [core for placement in epoch.placements for core in placement.cores()]
    return len(cores) != len(set(cores))


@pytest.mark.parametrize("seed", range(5))
def test_nothing_overlaps_or_sticks_out_and_every_op_is_placed_once_in_order(seed: int) -> None:
    lots = random.Random(seed)
    todo = ops(*[(lots.randint(1, 10), lots.randint(1, 8)) for _ in range(60)])
    epochs = place(todo, CHIP)
    assert [p.op.name for epoch in epochs for p in epoch.placements] == [op.name for op in todo]
    for number, epoch in enumerate(epochs):
        assert epoch.number == number
        assert not overlaps(epoch)
        for p in epoch.placements:
            assert p.row + p.grid.r <= CHIP.r
            assert p.col + p.grid.c <= CHIP.c
            assert p.grid == (Grid(p.op.grid.c, p.op.grid.r) if p.transposed else p.op.grid)


def test_an_op_that_is_larger_than_the_chip() -> None:
    with pytest.raises(CompilerInputError, match="matmul0: expected a grid within 10x12 cores, got 11x2"):
        place(ops((11, 2)), CHIP, PlacerOptions(transpose=False))


def test_harvested_rows() -> None:
    """2050 is rows 1 and 11: an e300, 8 rows left."""
    assert harvested_grid(CHIP, 2050) == Grid(8, 12)
    for row in range(13):
        if row in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11):
            assert harvested_grid(CHIP, 1 << row) == Grid(9, 12)
        else:
            with pytest.raises(CompilerInputError, match=f"expected rows 1-5 and 7-11, got {row} "):
                harvested_grid(CHIP, 1 << row)
    for mask, row in ((1, 0), (64, 6), (1 << 12, 12)):
        with pytest.raises(CompilerInputError, match=rf"expected rows 1-5 and 7-11, got {row} \(mask {mask}\)"):
            harvested_grid(CHIP, mask)
