"""Pipes: for each core that reads an operand, which tiles arrive, from where, in which order and by which route.

Every tile of a producer's result has a number. The TMs of the edge are applied to the numbers, so that the consumer's
view of them shows where each tile that it reads was made (TT-Buda's net2pipe does this with a tile map).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, TensorShape, Tm
from opscope.compiler.buda.placer.dram import SIZE, WORKERS
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.target.plan import PlacedOp

Core = tuple[int, int]


@dataclass(frozen=True)
class Run:
    """Consecutive tiles in one core's buffer, or in a queue (core None)."""

    core: Core | None
    first: int
    tiles: int


@dataclass(frozen=True)
class Pipe:
    """The data for a set of cores that read the same tiles: one core, or the cores that a matmul multicasts to."""

    name: str
    producer: str
    readers: tuple[Core, ...]
    runs: tuple[Run, ...]
    route: tuple[Core, ...]
    """NoC positions (x, y) from the first sender to the first reader; empty for a queue."""
    broadcast_in_tile: str
    """Dims along which the first row or column of each tile is repeated while it is unpacked."""

    @property
    def tiles(self) -> int:
        """Number of tiles that it delivers for one input."""
        return sum(run.tiles for run in self.runs)

    def row(self) -> dict[str, Any]:
        """Returns the pipe as it is written to the file."""
        return {
            "name": self.name,
            "from": self.producer,
            "readers": [list(core) for core in self.readers],
            "multicast": len(self.readers) > 1,
            "tiles": self.tiles,
            "input_list": [[list(run.core) if run.core else "queue", run.first, run.tiles] for run in self.runs],
            "route": [list(at) for at in self.route],
            **({"tile_broadcast": self.broadcast_in_tile} if self.broadcast_in_tile else {}),
        }


def tile_numbers(shape: TensorShape, tms: tuple[Tm, ...]) -> np.ndarray:
    """Returns the number of each tile of a result as a consumer sees it: (z, rows, columns) of tiles; -1 for zeros."""
    x = np.arange(shape.tiles).reshape(shape.w * shape.z, shape.rt, shape.ct)
    for tm in tms:
        z, r, c = x.shape
        match tm.name:
            case "transpose":
                x = x.transpose(0, 2, 1)
            case "hslice":
                x = x.reshape(z, r, tm.factor, -1).transpose(0, 2, 1, 3).reshape(z * tm.factor, r, -1)
            case "vslice":
                x = x.reshape(z * tm.factor, -1, c)
            case "hstack":
                x = x.reshape(z // tm.factor, tm.factor, r, c).transpose(0, 2, 1, 3).reshape(z // tm.factor, r, -1)
            case "vstack":
                x = x.reshape(z // tm.factor, -1, c)
            case "broadcast":
                x = np.tile(x, [tm.factor if tm.dim == d else 1 for d in "zrc"])
            case "buda_pad":
                x = np.pad(x, [(0, 0), (0, tm.rt), (0, tm.ct)], constant_values=-1)
            case "buda_unpad":
                x = x[:, : r - tm.rt, : c - tm.ct]
    return x


def pipes_of(plan: BudaPlan, placed: dict[str, PlacedOp], node: Node) -> list[Pipe]:
    """Returns every pipe into an op, but none for a picker, which each core has in L1."""
    pipes = []
    for edge in plan.graph.operands(node.name):
        if node.spec.sparse is not None and edge.operand == 0:
            continue
        pipes += _edge_pipes(plan, placed, node, edge)
    return pipes


def _edge_pipes(plan: BudaPlan, placed: dict[str, PlacedOp], node: Node, edge: Edge) -> Iterator[Pipe]:
    graph, model, placement = plan.graph, plan.choices[node.name].model, placed[node.name]
    numbers = tile_numbers(graph.node(edge.producer).shape, edge.tms)
    sender = placed.get(edge.producer)
    through_queue = (
        sender is None or (sender.epoch, sender.chip) != (placement.epoch, placement.chip) or edge in plan.cuts
    )
    where = None if through_queue else _owners(graph.node(edge.producer), plan.choices[edge.producer].model)
    cores = list(placement.cores())
    rows, cols = placement.grid
    inside = "".join(tm.dim for tm in edge.tms if tm.name == "tile_broadcast")
    for readers, tiles in _shares(graph, node, model, edge, numbers):
        at = tuple(cores[_index(r, c, rows, cols, placement.transposed)] for r, c in readers)
        runs = tuple(_runs(tiles, where, sender))
        source = next((run.core for run in runs if run.core is not None), None)
        route = _route(plan.budget.arch, source, at[0]) if source is not None else ()
        name = f"{node.name}.input_{edge.operand}.{readers[0][0]}_{readers[0][1]}"
        yield Pipe(name, edge.producer, at, runs, route, inside)


def _index(r: int, c: int, rows: int, cols: int, transposed: bool) -> int:
    """Returns the index of core (r, c) of the model in `PlacedOp.cores()`."""
    return c * rows + r if transposed else r * cols + c


def _shares(
    graph: BudaGraph, node: Node, model: OpModel, edge: Edge, numbers: np.ndarray
) -> Iterator[tuple[list[Core], np.ndarray]]:
    """Yields the cores that read the same tiles, and these tiles in the order in which the kernel takes them."""
    grid = model.grid
    if node.spec.is_matmul and edge.operand == 0:
        for r in range(grid.r):
            yield [(r, c) for c in range(grid.c)], _taken(node, model, edge.operand, numbers, r, 0)
    elif node.spec.is_matmul and edge.operand == 1:
        for c in range(grid.c):
            yield [(r, c) for r in range(grid.r)], _taken(node, model, edge.operand, numbers, 0, c)
    else:
        for r in range(grid.r):
            for c in range(grid.c):
                yield [(r, c)], _taken(node, model, edge.operand, numbers, r, c)


def _taken(node: Node, model: OpModel, operand: int, numbers: np.ndarray, r: int, c: int) -> np.ndarray:
    """Returns the numbers of the tiles that core (r, c) takes, by pieces; a product takes its inner blocks in order."""
    _, rt, ct = numbers.shape
    pieces = []
    by_rows, by_cols = _cut(node, operand)
    for tr in range(model.stream.r):
        for tc in range(model.stream.c):
            rows = _slice(rt, model.grid.r, r, model.stream.r, tr) if by_rows else slice(0, rt)
            cols = _slice(ct, model.grid.c, c, model.stream.c, tc) if by_cols else slice(0, ct)
            part = numbers[:, rows, cols]
            pieces.append(_blocks(part, model, operand).ravel() if node.spec.type == "matmul" else part.ravel())
    return np.concatenate(pieces)


def _cut(node: Node, operand: int) -> tuple[bool, bool]:
    """Whether an operand's rows and whether its columns are distributed over the cores."""
    if node.spec.is_matmul:
        return operand != 1, operand != 0
    if node.spec.type == "reduce":
        return node.spec.reduce_dim != "r", node.spec.reduce_dim != "c"
    return node.spec.type != "splice", node.spec.type != "splice"


def _slice(size: int, cores: int, core: int, pieces: int, piece: int) -> slice:
    step = size // (cores * pieces)
    start = (piece * cores + core) * step
    return slice(start, start + step)


def _blocks(part: np.ndarray, model: OpModel, operand: int) -> np.ndarray:
    """Returns a product's operand by inner blocks, as its kernel reads it."""
    z, rt, ct = part.shape
    u_kt = model.u_kt
    if operand == 0 and ct % u_kt == 0:
        return part.reshape(z, rt, ct // u_kt, u_kt).transpose(0, 2, 1, 3)
    return part


def _owners(node: Node, model: OpModel) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each tile of a result the core of the model's grid that makes it, and its place on that core."""
    shape, grid, stream = node.shape, model.grid, model.stream
    z = shape.w * shape.z
    height, width = shape.rt // (grid.r * stream.r), shape.ct // (grid.c * stream.c)
    rows, cols = np.arange(shape.rt), np.arange(shape.ct)
    piece_r, core_r = np.divmod(rows // height, grid.r)
    piece_c, core_c = np.divmod(cols // width, grid.c)
    core = np.broadcast_to((core_r[:, None] * grid.c + core_c[None, :]), (z, shape.rt, shape.ct))
    piece = piece_r[:, None] * stream.c + piece_c[None, :]
    inside = (rows % height)[:, None] * width + (cols % width)[None, :]
    block = height * width
    order = (
        piece[None] * z + np.arange(z)[:, None, None]
        if stream.z_major
        else np.arange(z)[:, None, None] * (stream.r * stream.c) + piece[None]
    )
    place = order * block + inside[None]
    return core.ravel(), np.broadcast_to(place, (z, shape.rt, shape.ct)).ravel()


def _runs(tiles: np.ndarray, where: tuple[np.ndarray, np.ndarray] | None, sender: PlacedOp | None) -> Iterator[Run]:
    """Yields the tiles as runs of neighbours."""
    tiles = tiles[tiles >= 0]
    if not len(tiles):
        return
    owner = where[0][tiles] if where is not None else np.zeros(len(tiles), int)
    place = where[1][tiles] if where is not None else tiles
    new = np.flatnonzero((np.diff(owner) != 0) | (np.diff(place) != 1)) + 1
    starts = np.concatenate([[0], new])
    lengths = np.diff(np.concatenate([starts, [len(tiles)]]))
    cores = list(sender.cores()) if sender is not None and where is not None else []
    for start, length in zip(starts, lengths, strict=True):
        core = None
        if sender is not None and cores:
            r, c = divmod(int(owner[start]), sender.grid[1])
            core = cores[_index(r, c, *sender.grid, sender.transposed)]
        yield Run(core, int(place[start]), int(length))


def _route(arch: str, source: Core, target: Core) -> tuple[Core, ...]:
    """Returns NoC 0's route: right along the sender's row, then down the reader's column; links wrap around."""
    columns, rows = WORKERS[arch]
    width, height = SIZE[arch]
    (x, y), (tx, ty) = (columns[source[1]], rows[source[0]]), (columns[target[1]], rows[target[0]])
    hops = [(x, y)]
    while x != tx:
        x = (x + 1) % width
        hops.append((x, y))
    while y != ty:
        y = (y + 1) % height
        hops.append((x, y))
    return tuple(hops)


__all__ = ["Pipe", "Run", "pipes_of", "tile_numbers"]
