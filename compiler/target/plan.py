"""The plan in a binary: which operation runs when, on which cores, in which blocks, and where queues lie.

A plan only refers to the operations of the binary's entry; one that is empty leaves them to run in order. Field names
are those of TT-Buda's netlist (tt-buda: csrc/lower_to_buda; tt-budabackend: netlist/README.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opscope.compiler.target.host_program import HostProgram

PIPE_RESERVE = 262_144
"""Bytes of L1 that TT-Buda's planner leaves to net2pipe (56 KiB) and pipegen (200 KiB); part of a board's reserved
L1. A netlist that somebody wrote by hand may use them."""


@dataclass(frozen=True)
class BlockPlan:
    """One core's share: `t` macro blocks, each of mblock_m x mblock_n micro blocks of ublock_rt x ublock_ct tiles."""

    t: int = 1
    mblock_m: int = 1
    mblock_n: int = 1
    ublock_rt: int = 1
    ublock_ct: int = 1


@dataclass(frozen=True)
class CoreBuffer:
    """A buffer in the L1 of each of an op's cores."""

    role: str
    """`input`, `output`, `intermediate` or `parameter`."""
    operand: int
    data_format: str
    tiles: int
    tile_bytes: int
    """The header counted."""

    @property
    def bytes(self) -> int:
        """Bytes that it takes."""
        return self.tiles * self.tile_bytes


@dataclass(frozen=True)
class PlacedOp:
    """One op on its cores."""

    name: str
    operation: int
    """Index of its kernel's operation in the entry; of a fused op of its last step's."""
    epoch: int
    chip: int
    row: int
    col: int
    """Its first core."""
    grid: tuple[int, int]
    """Rows and columns of cores, as the op model counts them."""
    transposed: bool
    """Laid on its side: rows of the model are columns of cores."""
    stream_dir: str
    """R, C or RZ."""
    stream: tuple[int, int]
    """Pieces along rows and columns, one after another in time."""
    block: BlockPlan
    m_k: int
    u_kt: int
    """Steps along a product's inner dimension, and tiles of each; 1 for other ops."""
    ublock_order: str
    buffers: tuple[CoreBuffer, ...]
    steps: tuple[int, ...] = ()
    """Of a fused op: operations that the same cores do before `operation`, its last step."""
    l1_acc: bool = False
    """Whether the packer adds up a product's partial sums in L1."""

    def cores(self) -> Iterable[tuple[int, int]]:
        """Its cores on the chip, as (row, column)."""
        rows, cols = reversed(self.grid) if self.transposed else self.grid
        return ((self.row + r, self.col + c) for r in range(rows) for c in range(cols))

    @property
    def l1_bytes(self) -> int:
        """Bytes of L1 on each core."""
        return sum(buffer.bytes for buffer in self.buffers)


@dataclass(frozen=True)
class Allocation:
    """Where one core's part of a queue lies."""

    channel: int
    address: int


@dataclass(frozen=True)
class QueuePlan:
    """Where data waits outside the cores: inputs, parameters, outputs, and what one epoch leaves to a later one."""

    name: str
    tensor: int
    """In the entry."""
    source: str
    """`HOST`, or the op that writes it."""
    kind: str
    """`queue`, or `ram` for what stays the same from one input to the next."""
    entries: int
    grid: tuple[int, int]
    block: BlockPlan
    data_format: str
    location: str
    """`dram` or `host`."""
    chip: int
    allocations: tuple[Allocation, ...]
    """One per core of the grid, row by row."""
    entry_bytes: int
    """Bytes of one entry of one allocation."""
    result: int = -1
    """What its op writes, for a ram that programs read before they write it: `tensor` is what the host wrote first."""


@dataclass(frozen=True)
class EpochPlan:
    """What runs at once on one chip."""

    number: int
    chip: int
    kind: str
    """`forward`, `backward` or `optimizer`."""
    graph: str = ""
    """Its name in the plan's programs; empty in a plan without programs."""
    input_count: int = 1
    """Entries that one execution reads from its input queues, one after another."""


@dataclass(frozen=True)
class Plan:
    """Epochs, in order; the ops in them; the queues."""

    name: str = ""
    policy: str = ""
    epochs: tuple[EpochPlan, ...] = ()
    ops: tuple[PlacedOp, ...] = ()
    queues: tuple[QueuePlan, ...] = ()
    pipe_reserve: int = PIPE_RESERVE
    """Bytes of each core's L1 that its ops leave free for pipes."""
    programs: tuple[HostProgram, ...] = ()
    """What the host executes; without any, every epoch runs once, in order."""
