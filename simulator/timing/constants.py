"""What the constants of an arch are. `constants_*.py` have their values and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DataPath:
    """Unpacking, packing and handing over a micro block, in cycles: max(ublock + tiles * tile, tiles * moved)."""

    ublock: float
    tile: float
    moved: float
    """A tile on its way from or to another core or DRAM, where an input is longer than the buffers."""


@dataclass(frozen=True)
class Kernel:
    """The math of an op that is not a product, in cycles: `start` per input, then per micro block and per tile."""

    start: float
    ublock: float
    tile: float
    busy: float = 0.0
    """A tile in the thread that is never idle where inputs are long, which hides what begins an input and a micro
    block; 0 where the measurements show no such end."""


@dataclass(frozen=True)
class Product:
    """A matrix product, in cycles."""

    phase: float
    """One 32x32x32 product, per fidelity phase."""
    unpack_pair: float
    """Unpacking, per row of a ublock and step: one tile of the left operand and each of the right one's."""
    unpack_right: float
    """Unpacking a tile of the right operand once per step."""
    step: float
    """Unpacking, per micro block and step."""
    pack_ublock: float
    pack_tile: float
    """Packing a micro block of the result."""
    reload_ublock: float
    reload_tile: float
    """Bringing a micro block's partial sums back to Dst, per step but the first."""
    spill_ublock: float
    spill_tile: float
    """The least that a step with partial sums takes: packing them and unpacking them again."""
    last: float
    """The last step of several."""
    start: float
    """Per input."""
    left: float
    right: float
    """A tile of each operand on its way to the core."""


@dataclass(frozen=True)
class Sparse:
    """A product with a sparse left operand, in cycles."""

    strip: float
    """Decoding a strip."""
    row: float
    """Looking through a strip, per row of micro blocks."""
    block: float
    """Per micro block of a strip."""
    pair: float
    """Per tile that is not zero and micro block of the right operand."""
    column: float
    """The same, per column of tiles."""
    phase: float
    """The same, per column and fidelity phase."""
    least: float
    """The least that a tile that is not zero takes, per micro block of the right operand."""
    reload_tile: float
    """Partial sums, per tile of a micro block with a tile that is not zero."""
    pack_tile: float
    start: float


@dataclass(frozen=True)
class Reduce:
    """A reduction along rows or columns, in cycles."""

    start: float
    ublock: float
    tile: float
    packed: float
    """A micro block of the result, which is one line of the operand's."""
    busy: float = 0.0
    """As `Kernel.busy`."""


@dataclass(frozen=True)
class ReduceZ:
    """A reduction along z, in cycles."""

    start: float
    first: DataPath
    """Of the first matrix."""
    ublock: float
    tile: float
    """Of each further matrix."""
    latency: float
    """Between two matrices, where a core holds so few tiles that nothing hides it."""


@dataclass(frozen=True)
class Constants:
    """One arch. Keys `8`, `16`, `32` are the width of the widest datum; 8 has block formats, `int8` plain bytes."""

    data: Mapping[str, DataPath]
    """Operands and width (`2/16`) -> the path of data through a core."""
    kernels: Mapping[str, Mapping[str, Kernel]]
    """Kernel -> width -> its math. `exp approx` is a kernel of its own."""
    products: Mapping[str, Product]
    """Width, and `l1_acc` where the packer adds up in L1 -> a product."""
    sparse: Mapping[str, Sparse] = field(default_factory=dict)
    reduce: Mapping[str, Reduce] = field(default_factory=dict)
    """`reduce r` or `reduce c`, and width."""
    reduce_z: Mapping[str, ReduceZ] = field(default_factory=dict)
