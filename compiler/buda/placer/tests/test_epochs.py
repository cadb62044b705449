"""Placement against TT-Buda's own expectations (its placer's unit tests: grids, epochs, transposes), and invariants."""

from __future__ import annotations

import random

import pytest

from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.placer.epochs import (
    CoreGrid,
    Epoch,
    OpToPlace,
    Placement,
    PlacerOptions,
    place,
    try_place,
)
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


def plan_of(epochs: tuple[Epoch, ...]) -> list[str]:
    """`epoch on chip: op at row,column as rows x columns`, T for a transposed one."""
    return [
        f"{epoch.number} on {epoch.chip}: "
        + ", ".join(f"{p.op.name[6:]} at {p.row},{p.col} as {p.grid}{'T' * p.transposed}" for p in epoch.placements)
        for epoch in epochs
    ]


def test_whole_plans() -> None:
    """Rows from the top, each from the left; another pass, a break or a full chip starts an epoch."""
    sizes = [(4, 6), (4, 6), (2, 12), (4, 1), (10, 12), (1, 1), (1, 2), (1, 3)]
    plain = [
        "0 on 0: 0 at 0,0 as 4x6, 1 at 0,6 as 4x6, 2 at 4,0 as 2x12, 3 at 6,0 as 1x4T",
        "1 on 0: 4 at 0,0 as 10x12",
    ]
    todo = ops(*sizes, kinds="ffffffbf")
    epochs = place(todo, CHIP)
    assert plan_of(epochs) == [*plain, "2 on 0: 5 at 0,0 as 1x1", "3 on 0: 6 at 0,0 as 1x2", "4 on 0: 7 at 0,0 as 1x3"]
    assert [[p.epoch for p in epoch.placements] for epoch in epochs] == [[0] * 4, [1], [2], [3], [4]]
    assert [[p.chip for p in epoch.placements] for epoch in epochs] == [[0] * 4, [0], [0], [0], [0]]
    assert plan_of(place(ops(*sizes[5:]), CHIP)) == ["0 on 0: 0 at 0,0 as 1x1, 1 at 0,1 as 1x2, 2 at 0,3 as 1x3"]
    alone = place(ops((2, 2), (2, 2)), CHIP, PlacerOptions(chip_breaks=("matmul1",)))
    assert plan_of(alone) == ["0 on 0: 0 at 0,0 as 2x2", "1 on 0: 1 at 0,0 as 2x2"]
    breaks = PlacerOptions(("matmul2",), ("matmul0", "matmul1", "matmul3", "matmul4"), 3, chip_order=(7, 2, 5))
    assert plan_of(place(ops(*[(2, 2)] * 6), CHIP, breaks)) == [
        "0 on 7: 0 at 0,0 as 2x2",
        "1 on 2: 1 at 0,0 as 2x2",
        "2 on 2: 2 at 0,0 as 2x2",
        "3 on 5: 3 at 0,0 as 2x2",
        "4 on 7: 4 at 0,0 as 2x2, 5 at 0,2 as 2x2",
    ]


def test_what_an_epoch_counts() -> None:
    """Cores in use, and the cycles of its slowest op; without ops there are none."""
    todo = [OpToPlace("slow", Grid(2, 3), "backward", 70), OpToPlace("fast", Grid(1, 4), "backward", 20)]
    (epoch,), (one,) = place(todo, CHIP), place(todo[:1], CHIP)
    assert (epoch.kind, epoch.cores, epoch.cycles) == ("backward", 10, 70)
    assert (one.kind, one.cores, one.cycles) == ("backward", 6, 70)
    empty = Epoch(0, 0, ())
    assert (empty.kind, empty.cores, empty.cycles) == ("forward", 0, 0)
    plain = OpToPlace("plain", Grid(1, 1))
    assert (plain.epoch_type, plain.cycles) == ("forward", 0)


def filled(chip: tuple[int, int], row: int, col: int, rows: int, cols: int) -> CoreGrid:
    """A chip with one op on it."""
    cores, size = CoreGrid(Grid(*chip)), Grid(rows, cols)
    cores.take(Placement(OpToPlace("first", size), 0, 0, row, col, size))
    return cores


@pytest.mark.parametrize(
    ("shape", "core"),
    [
        ((1, 1), (0, 0)),
        ((1, 2), (0, 2)),
        ((2, 1), (0, 0)),
        ((2, 2), (0, 2)),
        ((4, 1), (0, 0)),
        ((4, 2), (0, 2)),
        ((2, 4), None),
        ((1, 4), (2, 0)),
        ((2, 3), None),
        ((4, 3), None),
        ((5, 1), None),
        ((1, 5), None),
    ],
)
def test_the_first_free_rectangle(shape: tuple[int, int], core: tuple[int, int] | None) -> None:
    """Of a chip of 4x4 cores whose second column is taken down to the second row, and (3, 1)."""
    cores = filled((4, 4), 0, 1, 2, 1)
    cores.taken.add((3, 1))
    assert cores.first_free(Grid(*shape)) == core


def test_the_band_of_ops_beside_a_core() -> None:
    """2x2 cores from (1, 1) are taken: a core to their right has a band from its row down."""
    wide, tall, square = (filled(chip, 1, 1, 2, 2) for chip in ((4, 5), (5, 4), (4, 4)))
    beside = {(1, 3): 2, (2, 3): 1, (1, 2): 2}
    none = [(1, 0), (1, 1), (0, 3), (3, 3)]
    for cores in (wide, tall, square):
        assert {core: cores.band_height(*core) for core in beside} == beside
    assert [wide.band_height(*core) for core in (*none, (1, 4))] == [0, 0, 0, 0, 2]
    assert [square.band_height(*core) for core in none] == [0] * 4
    assert [tall.band_height(*core) for core in none] == [4, 4, 5, 2]
    assert filled((4, 5), 0, 0, 4, 1).band_height(1, 1) == 3


@pytest.mark.parametrize(
    ("taken", "shape", "place"),
    [
        ((0, 0, 2, 3), (3, 2), "0,3 as 2x3T"),  # taller than the band
        ((0, 0, 3, 3), (3, 2), "0,3 as 3x2"),  # as tall as the band
        ((0, 0, 1, 3), (2, 2), "0,3 as 2x2"),  # a square is not turned
        ((0, 0, 1, 3), (2, 3), "0,3 as 2x3"),  # nor is what lies already
        ((0, 0, 3, 5), (4, 1), "0,5 as 4x1"),  # it would start later on its side
        ((1, 0, 1, 6), (2, 1), "0,0 as 1x2T"),  # it starts earlier on its side
        ((0, 0, 1, 6), (4, 1), "1,0 as 1x4T"),  # there is no room upright
        ((0, 0, 1, 6), (4, 4), None),
        ((0, 0, 4, 5), (4, 2), None),
    ],
)
def test_when_an_op_is_transposed(taken: tuple[int, int, int, int], shape: tuple[int, int], place: str | None) -> None:
    """On 4x6 cores, beside one op at a row and column with a shape."""
    cores, op = filled((4, 6), *taken), OpToPlace("op", Grid(*shape))
    got = try_place(op, cores, transpose=True)
    assert (f"{got.row},{got.col} as {got.grid}{'T' * got.transposed}" if got else None) == place
    assert got is None or (got.op, got.chip, got.epoch) == (op, 0, 0)
    upright = try_place(op, cores, transpose=False)
    assert upright is None or not upright.transposed
    assert (upright is None) is (place is None or place == "1,0 as 1x4T")


def test_on_an_empty_chip_nothing_is_transposed() -> None:
    assert try_place(OpToPlace("op", Grid(5, 1)), CoreGrid(Grid(4, 6)), transpose=True) is None
    first = try_place(OpToPlace("op", Grid(3, 1)), CoreGrid(Grid(4, 6)), transpose=True)
    assert first is not None
    assert (first.grid, first.transposed) == (Grid(3, 1), False)


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
