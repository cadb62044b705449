"""The tables of a system descriptor: one row for each field, with its slot, and the classes that hold their values.

Slots, types and numbers of enums are those of tt-mlir's schema (include/ttmlir/Target/Common/types.fbs and
system_desc.fbs), as it has been from its change 8146 on, of which tt-xla's published descriptors are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from opscope.base.number_formats import FORMATS

IDENTIFIER = b"TTSY"
PREFIX = 4
"""Bytes of the size that is in front."""

ARCHS = ("wormhole_b0", "blackhole", "quasar")
"""Names by number."""
DATA_TYPES = tuple(
    row.name for row in sorted(FORMATS.values(), key=lambda row: row.tt_mlir_code or 0) if row.tt_mlir_code is not None
)
"""Formats by number, in our names. Of those that follow (64 bits, Int16, Int8, Bool) tt-mlir makes no tensors."""
MOST_DATA_TYPES = 19
"""So many numbers of types there are."""
HOST, ON_DEVICE = 0, 1
"""Roles of a CPU."""
HOST_MMIO = 1
"""The one capability of a chip: the host reaches it."""

Pair = tuple[int, int]
"""Row and column, or height and width."""
Channel = tuple[int, int, int, int, int, int]
"""Two ends of a link: chip, and row and column of an Ethernet core, twice; the column is the channel's number."""


@dataclass(frozen=True)
class CpuTable:
    """A CPU that runs a part of a program."""

    role: int
    target_triple: str


@dataclass(frozen=True)
class ChipTable:
    """A chip. Sizes and addresses in bytes."""

    arch: int
    grid_size: Pair
    coord_translation_offsets: Pair
    l1_size: int
    num_dram_channels: int
    dram_channel_size: int
    noc_l1_address_align_bytes: int
    pcie_address_align_bytes: int
    noc_dram_address_align_bytes: int
    l1_unreserved_base: int
    erisc_l1_unreserved_base: int
    dram_unreserved_base: int
    dram_unreserved_end: int
    supported_data_types: tuple[int, ...]
    supported_tile_sizes: tuple[Pair, ...]
    dst_physical_size_tiles: int
    num_cbs: int
    num_compute_threads: int
    num_datamovement_threads: int
    dram_grid_size: Pair
    dram_bank_to_logical_worker_noc0: tuple[Pair, ...]
    dram_bank_to_logical_worker_noc1: tuple[Pair, ...]

    @property
    def arch_name(self) -> str:
        """`wormhole_b0`, `blackhole` or `quasar`."""
        return ARCHS[self.arch]


@dataclass(frozen=True)
class SystemTable:
    """CPUs, chips and the links between these."""

    cpu_descs: tuple[CpuTable, ...]
    chip_descs: tuple[ChipTable, ...]
    chip_desc_indices: tuple[int, ...]
    """For each chip of the system, which description is its own."""
    chip_capabilities: tuple[int, ...]
    chip_coords: tuple[tuple[int, int, int, int], ...]
    """Rack, shelf, row and column."""
    chip_channels: tuple[Channel, ...]


@dataclass(frozen=True)
class SystemDescriptor:
    """A whole descriptor: which build of tt-mlir it is for, and the system."""

    version: tuple[int, int, int]
    """Of the tt-mlir that wrote it; nothing depends on it."""
    schema_hash: str
    ttmlir_git_hash: str
    product_identifier: str
    system_desc: SystemTable

    @property
    def chips(self) -> tuple[ChipTable, ...]:
        """The chips of the system, in order."""
        return tuple(self.system_desc.chip_descs[index] for index in self.system_desc.chip_desc_indices)


@dataclass(frozen=True)
class Field:
    """One field of a table."""

    slot: int
    """Its number in the schema."""
    name: str
    kind: str
    """`number`, `struct`, `text`, `table`, `tables`, `numbers`, `structs`; the last three are vectors."""
    code: str = ""
    """Numbers of one item, as Python's struct has them."""
    of: type | None = None
    """The class of a table."""

    @property
    def item(self) -> struct.Struct:
        """How one item is written."""
        return struct.Struct(f"<{self.code or 'I'}")

    @property
    def alignment(self) -> int:
        """Bytes of the largest number of an item."""
        return max(struct.calcsize(f"<{letter}") for letter in self.code or "I")

    @property
    def is_inline(self) -> bool:
        """Whether it lies in its table, and not behind an offset."""
        return self.kind in ("number", "struct")


FIELDS: Mapping[type, tuple[Field, ...]] = {
    SystemDescriptor: (
        Field(0, "version", "struct", "HHI"),
        Field(1, "schema_hash", "text"),
        Field(2, "ttmlir_git_hash", "text"),
        Field(3, "product_identifier", "text"),
        Field(4, "system_desc", "table", of=SystemTable),
    ),
    SystemTable: (
        Field(0, "cpu_descs", "tables", of=CpuTable),
        Field(1, "chip_descs", "tables", of=ChipTable),
        Field(2, "chip_desc_indices", "numbers", "I"),
        Field(3, "chip_capabilities", "numbers", "I"),
        Field(4, "chip_coords", "structs", "IIII"),
        Field(5, "chip_channels", "structs", "IiiIii"),
    ),
    CpuTable: (Field(0, "role", "number", "B"), Field(1, "target_triple", "text")),
    ChipTable: (
        Field(0, "arch", "number", "I"),
        Field(1, "grid_size", "struct", "ii"),
        Field(2, "coord_translation_offsets", "struct", "ii"),
        Field(3, "l1_size", "number", "Q"),
        Field(4, "num_dram_channels", "number", "I"),
        Field(5, "dram_channel_size", "number", "Q"),
        Field(6, "noc_l1_address_align_bytes", "number", "I"),
        Field(7, "pcie_address_align_bytes", "number", "I"),
        Field(8, "noc_dram_address_align_bytes", "number", "I"),
        Field(9, "l1_unreserved_base", "number", "I"),
        Field(10, "erisc_l1_unreserved_base", "number", "I"),
        Field(11, "dram_unreserved_base", "number", "I"),
        Field(12, "dram_unreserved_end", "number", "I"),
        Field(13, "supported_data_types", "numbers", "H"),
        Field(14, "supported_tile_sizes", "structs", "ii"),
        Field(15, "dst_physical_size_tiles", "number", "I"),
        Field(16, "num_cbs", "number", "I"),
        Field(17, "num_compute_threads", "number", "I"),
        Field(18, "num_datamovement_threads", "number", "I"),
        Field(19, "dram_grid_size", "struct", "ii"),
        Field(20, "dram_bank_to_logical_worker_noc0", "structs", "ii"),
        Field(21, "dram_bank_to_logical_worker_noc1", "structs", "ii"),
    ),
}
"""The fields of each table, by slot. A number that is not written is 0; all else has to be there."""
