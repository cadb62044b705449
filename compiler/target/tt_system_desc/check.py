"""Which figures of a system descriptor are possible; others make the compiler that loads it divide by zero or crash."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.compiler.target.tt_system_desc.fields import (
    ARCHS,
    HOST,
    HOST_MMIO,
    MOST_DATA_TYPES,
    ON_DEVICE,
    ChipTable,
    SystemTable,
)

_MOST_ROWS, _MOST_CHIPS, _MOST_SIZE = 64, 1024, 1 << 48
QUASAR = ARCHS.index("quasar")
_POSITIVE = (
    "l1_size",
    "num_dram_channels",
    "dram_channel_size",
    "dst_physical_size_tiles",
    "num_cbs",
    "num_compute_threads",
    "num_datamovement_threads",
)
_ALIGNMENTS = ("noc_l1_address_align_bytes", "pcie_address_align_bytes", "noc_dram_address_align_bytes")
_FEW = ("dst_physical_size_tiles", "num_cbs", "num_compute_threads", "num_datamovement_threads", "num_dram_channels")
_MOST_FEW = 1 << 12
_LARGEST_ALIGNMENT = 1 << 16


def check_system(system: SystemTable) -> None:
    """Checks the figures of a system. Raises ValueError: `expected X, got Y`."""
    problem = next(_of_system(system), None)
    if problem is not None:
        raise ValueError(problem)


def _of_system(system: SystemTable) -> Iterator[str]:
    """Yields what is impossible of a system."""
    count = len(system.chip_desc_indices)
    if not system.cpu_descs or not system.chip_descs or not 0 < count <= _MOST_CHIPS:
        yield f"expected a CPU and 1 to {_MOST_CHIPS} chips, got {len(system.cpu_descs)} and {count}"
    for cpu in system.cpu_descs:
        if cpu.role not in (HOST, ON_DEVICE):
            yield f"expected a CPU's role {HOST} or {ON_DEVICE}, got {cpu.role}"
        if not cpu.target_triple:
            yield "expected a CPU's target triple, got none"
    for index in system.chip_desc_indices:
        if index >= len(system.chip_descs):
            yield f"expected chip_desc_indices below {len(system.chip_descs)}, got {index}"
    if len(set(system.chip_desc_indices)) != count:  # the plugin takes them for the chips' ids
        yield f"expected chip_desc_indices that differ, got {system.chip_desc_indices}"
    if len(system.chip_capabilities) != count:
        yield f"expected chip_capabilities of {count} chips, got {len(system.chip_capabilities)}"
    for capability in system.chip_capabilities:
        if capability & ~HOST_MMIO:
            yield f"expected chip_capabilities 0 or {HOST_MMIO}, got {capability}"
    if not any(capability & HOST_MMIO for capability in system.chip_capabilities):
        yield "expected a chip that the host reaches, got none"
    if not system.chip_coords:
        yield "expected chip_coords, got none"
    for chip, _, _, other, _, _ in system.chip_channels:
        if max(chip, other) >= count or chip == other:
            yield f"expected chip_channels between two of {count} chips, got {chip} and {other}"
    for chip in system.chip_descs:
        yield from _of_chip(chip)


def _of_chip(chip: ChipTable) -> Iterator[str]:
    """Yields what is impossible of a chip."""
    if chip.arch >= len(ARCHS):
        yield f"expected arch 0 to {len(ARCHS) - 1} ({', '.join(ARCHS)}), got {chip.arch}"
    rows, columns = chip.grid_size
    if not (0 < rows <= _MOST_ROWS and 0 < columns <= _MOST_ROWS):
        yield f"expected a grid_size of 1x1 to {_MOST_ROWS}x{_MOST_ROWS} cores, got {rows}x{columns}"
    if not all(0 <= each <= 2 * _MOST_ROWS for each in chip.coord_translation_offsets):
        yield f"expected coord_translation_offsets of a NoC, got {chip.coord_translation_offsets}"
    for name in _POSITIVE:
        if not 0 < (value := getattr(chip, name)) <= (_MOST_FEW if name in _FEW else _MOST_SIZE):
            yield f"expected a possible {name} above 0, got {value:,}"
    for name in _ALIGNMENTS:
        value = getattr(chip, name)
        if not 0 < value <= _LARGEST_ALIGNMENT or value & (value - 1):
            yield f"expected {name} to be a power of two up to {_LARGEST_ALIGNMENT:,}, got {value:,}"
    if chip.l1_unreserved_base >= chip.l1_size or chip.erisc_l1_unreserved_base >= chip.l1_size:
        yield (
            f"expected l1_unreserved_base and erisc_l1_unreserved_base below l1_size ({chip.l1_size:,}), got "
            f"{chip.l1_unreserved_base:,} and {chip.erisc_l1_unreserved_base:,}"
        )
    if not chip.dram_unreserved_base < chip.dram_unreserved_end <= chip.dram_channel_size:
        yield (
            f"expected dram_unreserved_base < dram_unreserved_end <= dram_channel_size, got "
            f"{chip.dram_unreserved_base:,}, {chip.dram_unreserved_end:,}, {chip.dram_channel_size:,}"
        )
    types, tiles = chip.supported_data_types, chip.supported_tile_sizes
    if not types or len(set(types)) != len(types) or max(types) >= MOST_DATA_TYPES:
        yield f"expected supported_data_types that differ, below {MOST_DATA_TYPES}, got {types}"
    if not tiles or not all(0 < side <= 1024 for tile in tiles for side in tile):
        yield f"expected supported_tile_sizes above 0, got {tiles}"
    banks = chip.num_dram_channels
    if not all(side > 0 for side in chip.dram_grid_size) or chip.dram_grid_size[0] * chip.dram_grid_size[1] != banks:
        yield f"expected a dram_grid_size of {banks} banks, got {chip.dram_grid_size}"
    for name in ("dram_bank_to_logical_worker_noc0", "dram_bank_to_logical_worker_noc1"):
        workers = getattr(chip, name)
        outside = [worker for worker in workers if not (0 <= worker[0] < rows and 0 <= worker[1] < columns)]
        if len(workers) != banks and not (chip.arch == QUASAR and not workers):  # tt-metal assigns none there
            yield f"expected {name} to have a worker for each of {banks} banks, got {len(workers)}"
        if outside:
            yield f"expected {name} inside the grid of {rows}x{columns} cores, got {outside[0]}"
