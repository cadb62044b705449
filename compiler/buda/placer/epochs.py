"""Places ops on rectangles of cores, in the order of the graph; an epoch is what fits on the chip at once.

It is a first fit: rows from the top, each row from the left. An op that is taller than wide, and taller than the band
of ops beside it, is transposed if it then starts no later. An op that does not fit starts the next epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import count

from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.errors import CompilerInputError


@dataclass(frozen=True)
class OpToPlace:
    """An op, its grid and its pass: forward, backward and optimizer ops never share an epoch."""

    name: str
    grid: Grid
    epoch_type: str = "forward"
    cycles: int = 0


@dataclass(frozen=True)
class Placement:
    """The place of an op: the rectangle's first core, and its shape there."""

    op: OpToPlace
    chip: int
    epoch: int
    row: int
    col: int
    grid: Grid
    transposed: bool = False

    def cores(self) -> Iterable[tuple[int, int]]:
        """Its cores, as (row, column)."""
        return ((self.row + r, self.col + c) for r in range(self.grid.r) for c in range(self.grid.c))


@dataclass(frozen=True)
class PlacerOptions:
    """Options of the placer."""

    epoch_breaks: Collection[str] = ()
    """Ops that start an epoch."""
    chip_breaks: Collection[str] = ()
    """Ops that start an epoch on the next chip."""
    chips: int = 1
    transpose: bool = True
    chip_order: tuple[int, ...] = ()
    """Chips in the order in which they are filled; empty for numeric order."""
    lying: Collection[str] = ()
    """Ops that are placed on their side."""


@dataclass(frozen=True)
class Epoch:
    """The ops that run at once on one chip."""

    number: int
    chip: int
    placements: tuple[Placement, ...]

    @property
    def kind(self) -> str:
        """Forward, backward or optimizer; all ops of an epoch have the same type."""
        return self.placements[0].op.epoch_type if self.placements else "forward"

    @property
    def cores(self) -> int:
        """Cores in use."""
        return sum(placement.grid.volume for placement in self.placements)

    @property
    def cycles(self) -> int:
        """Cycles per input, which are those of the slowest op, since all ops run as a pipeline."""
        return max((placement.op.cycles for placement in self.placements), default=0)


@dataclass
class CoreGrid:
    """One chip's cores while an epoch fills it."""

    grid: Grid
    chip: int = 0
    epoch: int = 0
    taken: set[tuple[int, int]] = field(default_factory=set)

    def first_free(self, shape: Grid) -> tuple[int, int] | None:
        """The first core from the top left from which a free rectangle of that shape starts."""
        for row in range(self.grid.r - shape.r + 1):
            for col in range(self.grid.c - shape.c + 1):
                if all((row + r, col + c) not in self.taken for r in range(shape.r) for c in range(shape.c)):
                    return row, col
        return None

    def band_height(self, row: int, col: int) -> int:
        """Rows of the band of ops to the left of a core, from that core's row down; 0 if there is none.

        On a chip that is taller than wide a new band has all remaining rows.
        """
        for left in reversed(range(col)):
            if (row, left) in self.taken:
                return next(height for height in count(1) if (row + height, left) not in self.taken)
        return self.grid.r - row if self.grid.r > self.grid.c else 0

    def take(self, placement: Placement) -> None:
        """Marks the cores of a placement as taken."""
        self.taken.update(placement.cores())


def place(ops: Iterable[OpToPlace], grid: Grid, options: PlacerOptions | None = None) -> tuple[Epoch, ...]:
    """Returns epochs for `ops` on chips of that grid. Raises CompilerInputError for an op larger than a chip."""
    options = options or PlacerOptions()
    epochs: list[tuple[int, list[Placement]]] = []
    order = options.chip_order or tuple(range(options.chips))
    cores, turns, chip = CoreGrid(grid), 0, order[0]
    kind: str | None = None
    for op in ops:
        turn = op.name in options.chip_breaks and bool(epochs)
        if turn:
            turns += 1
            chip = order[turns % options.chips]
        if turn or op.name in options.epoch_breaks or op.epoch_type != kind:
            cores = _start(epochs, chip, grid)
        placement = try_place(op, cores, options.transpose, op.name in options.lying)
        if placement is None:
            cores = _start(epochs, chip, grid)
            placement = try_place(op, cores, options.transpose, op.name in options.lying)
        if placement is None:
            raise CompilerInputError(f"{op.name}: expected a grid within {grid} cores, got {op.grid}")
        cores.take(placement)
        epochs[-1][1].append(placement)
        kind = op.epoch_type
    return tuple(Epoch(i, on, tuple(placements)) for i, (on, placements) in enumerate(epochs) if placements)


def _start(epochs: list[tuple[int, list[Placement]]], chip: int, grid: Grid) -> CoreGrid:
    cores = CoreGrid(grid, chip, len(epochs))
    epochs.append((chip, []))
    return cores


def try_place(op: OpToPlace, cores: CoreGrid, transpose: bool, lies: bool = False) -> Placement | None:
    """Returns where the op would go beside the placed ones, on its side if it `lies`; None if it does not fit."""
    upright = cores.first_free(op.grid)
    lying = Grid(op.grid.c, op.grid.r)
    if lies:
        first = cores.first_free(lying)
        return None if first is None else Placement(op, cores.chip, cores.epoch, *first, lying, transposed=True)
    tall = transpose and op.grid.r > op.grid.c and bool(cores.taken)
    turned = None
    if tall and (upright is None or cores.band_height(*upright) < op.grid.r):
        turned = cores.first_free(lying)
    if turned is not None and (upright is None or turned <= upright):
        return Placement(op, cores.chip, cores.epoch, *turned, lying, transposed=True)
    return None if upright is None else Placement(op, cores.chip, cores.epoch, *upright, op.grid)
