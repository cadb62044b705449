"""A netlist as dataclasses, with the fields of the file in their order (tt-budabackend: netlist/README.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HOST = "HOST"
OTHER_NETLIST = "net2net"
"""Stands in the name of the op of another netlist that fills a queue: here the host fills it in its place."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class Queue:
    """Data that waits outside the cores."""

    name: str
    input: str
    """`HOST`, or the op that writes the queue."""
    type: str
    """`queue` or `ram`."""
    entries: int
    grid_size: Pair
    t: int
    mblock: Pair
    ublock: Pair
    df: str
    target_device: int
    loc: str
    """`dram` or `host`."""
    addresses: tuple[Pair, ...]
    """Channel and address of each part, row by row of the grid; in the file under the key `dram` or `host`."""
    ublock_order: str = "r"
    tile_dim: Pair = (32, 32)
    input_tms: tuple[str, ...] = ()
    """TMs between the op that writes the queue and the queue."""
    elements: tuple[int, int, int] | None = None
    """Elements of one entry along z, rows and columns, if they do not fill the tiles (our addition)."""
    alias: str = ""
    """The ram whose memory it is another view of, with entries of more or fewer matrices; empty: it has its own."""

    @property
    def tiles(self) -> int:
        """Tiles of one part of one entry."""
        return self.t * self.mblock[0] * self.mblock[1] * self.ublock[0] * self.ublock[1]


@dataclass(frozen=True)
class Op:
    """One op of a graph."""

    name: str
    type: str
    grid_loc: Pair
    """Row and column of its first core."""
    grid_size: Pair
    inputs: tuple[str, ...]
    t: int
    mblock: Pair
    ublock: Pair
    in_df: tuple[str, ...]
    out_df: str
    intermed_df: str
    acc_df: str
    math_fidelity: str
    buf_size_mb: int = 2
    """Macro blocks that the output buffer holds."""
    ublock_order: str = "r"
    input_buf_min_size_tiles: tuple[int, ...] = ()
    """Tiles of each input buffer; 0 leaves the size to the kernel, as an absent number does."""
    grid_transpose: bool = False
    untilize_output: bool = False
    tms: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Operand -> its TMs; in the file under the keys `input_<i>_tms`."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    tile_dim: Pair = (32, 32)

    @property
    def cores(self) -> tuple[Pair, ...]:
        """Its cores, as (row, column)."""
        rows, cols = reversed(self.grid_size) if self.grid_transpose else self.grid_size
        return tuple((self.grid_loc[0] + r, self.grid_loc[1] + c) for r in range(rows) for c in range(cols))

    @property
    def mblock_tiles(self) -> int:
        """Tiles of one macro block of the output on one core."""
        return self.mblock[0] * self.mblock[1] * self.ublock[0] * self.ublock[1]


@dataclass(frozen=True)
class SubOp:
    """One step of a fused op; in the file `name` has a count, as in `add.0`."""

    name: str
    type: str
    inputs: tuple[str, ...]
    """`input0` and so on, `intermed0` and so on, or `dest`: the step before, still in Dst."""
    output: str
    """`dest`, `intermed0` and so on, or `output`."""
    tms: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    mblock: Pair | None = None
    ublock: Pair | None = None
    """Its blocks; None for those of the op."""
    pop: tuple[str, ...] = ()
    """Buffers that no later step reads."""


@dataclass(frozen=True)
class FusedOp:
    """The work of ops of type `fused_op` with this id: schedules of steps; Dst is kept within each."""

    id: int
    inputs: int
    intermediates: int
    schedules: tuple[tuple[SubOp, ...], ...]


@dataclass(frozen=True)
class Graph:
    """The ops that run at once on one chip, in one epoch."""

    name: str
    target_device: int
    input_count: int
    ops: tuple[Op, ...]


@dataclass(frozen=True)
class Program:
    """Instructions of the host's interpreter, in order: (name, argument)."""

    name: str
    instructions: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Netlist:
    """The whole file."""

    arch: str
    queues: Mapping[str, Queue]
    graphs: tuple[Graph, ...]
    programs: tuple[Program, ...]
    name: str = "netlist"
    fused_ops: Mapping[int, FusedOp] = field(default_factory=dict)
    archs: tuple[str, ...] = field(default=(), compare=False)
    """The kinds of chip that it may run on, in the file's order; empty for a netlist that no file gave."""

    @property
    def ops(self) -> dict[str, Op]:
        """Every op, by name."""
        return {op.name: op for graph in self.graphs for op in graph.ops}
