"""The system descriptor of a board: its profile `ttnn`, and what tt-metal finds and sets aside (`runtime_facts.py`)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from opscope.compiler.target.runtime_facts import ChipFacts, Core, RuntimeFacts
from opscope.compiler.target.system_desc import SystemDesc
from opscope.compiler.target.tt_system_desc.fields import (
    ARCHS,
    DATA_TYPES,
    HOST,
    HOST_MMIO,
    ChipTable,
    CpuTable,
    SystemDescriptor,
    SystemTable,
)
from opscope.compiler.target.tt_system_desc.read import DescriptorError, read_descriptor
from opscope.compiler.target.tt_system_desc.schema_hashes import build_of
from opscope.compiler.target.tt_system_desc.write import descriptor_bytes

TRIPLE = "x86_64-pc-linux"
"""The host's, as in the published descriptors."""


def system_desc_bytes(board: SystemDesc, schema_hash: str) -> bytes:
    """Returns a board's descriptor file for the build with a schema hash, read back and verified.

    Raises DescriptorError for a board that tt-mlir does not know, or one whose figures no descriptor can hold.
    """
    descriptor = descriptor_of(board, schema_hash)
    try:
        data = descriptor_bytes(descriptor)
    except struct.error as error:
        raise DescriptorError(
            f"board {board.board}: expected figures that fit into a system descriptor (addresses below 4 GiB), got: "
            f"{error}; try smaller ones"
        ) from None
    try:
        read_descriptor(data, f"board {board.board}", schema_hash)
    except DescriptorError as error:
        raise DescriptorError(f"{str(error).partition('; try ')[0]}; try other figures in its board file") from None
    return data


def descriptor_of(board: SystemDesc, schema_hash: str) -> SystemDescriptor:
    """Returns a board's descriptor for the build with a schema hash. Raises DescriptorError if it can have none."""
    runtime = board.runtime
    if board.arch not in ARCHS:
        raise DescriptorError(
            f"board {board.board}: expected an arch that tt-mlir knows ({', '.join(ARCHS[:2])}), got {board.arch}; "
            "try n150"
        )
    if runtime is None:
        raise DescriptorError(
            f"board {board.board}: expected figures under `runtime` in its board file, got none; try `like: n150` there"
        )
    build = build_of(schema_hash)
    links = [(link.chip, link.channel, 0, link.other_chip, link.other_channel, 0) for link in runtime.links]
    return SystemDescriptor(
        version=build.ttmlir_version if build else (0, 0, 0),
        schema_hash=schema_hash,
        ttmlir_git_hash=build.ttmlir_git_hash if build else "unknown",
        product_identifier="unknown",
        system_desc=SystemTable(
            cpu_descs=(CpuTable(HOST, TRIPLE),),
            chip_descs=tuple(_chip(board, runtime, chip) for chip in runtime.chips),
            chip_desc_indices=tuple(range(len(runtime.chips))),
            chip_capabilities=tuple(HOST_MMIO if chip.host else 0 for chip in runtime.chips),
            chip_coords=((0, 0, 0, 0),),
            chip_channels=tuple(sorted(links)),
        ),
    )


def _chip(board: SystemDesc, runtime: RuntimeFacts, chip: ChipFacts) -> ChipTable:
    """Returns the table of a chip; of its grid the columns that are switched off or serve dispatch are left out."""
    profile = board.ttnn
    columns = board.physical_grid[1] - runtime.harvested_columns
    grid = profile.grid[0], min(profile.grid[1], columns - runtime.dispatch_columns)
    cores = (board.physical_grid[0] - len(board.harvested_rows)) * columns + chip.ethernet_cores
    return ChipTable(
        arch=ARCHS.index(board.arch),
        grid_size=grid,
        coord_translation_offsets=runtime.coordinate_offset,
        l1_size=profile.l1_bytes,
        num_dram_channels=profile.dram_channels,
        dram_channel_size=profile.dram_channel_bytes,
        noc_l1_address_align_bytes=profile.l1_alignment,
        pcie_address_align_bytes=runtime.pcie_alignment,
        noc_dram_address_align_bytes=profile.dram_alignment,
        l1_unreserved_base=profile.l1_unreserved_base,
        erisc_l1_unreserved_base=runtime.erisc_unreserved_base,
        dram_unreserved_base=profile.dram_unreserved_base,
        dram_unreserved_end=_dram_end(board, cores),
        supported_data_types=tuple(i for i, name in enumerate(DATA_TYPES) if name in board.formats),
        supported_tile_sizes=runtime.tile_sizes,
        dst_physical_size_tiles=runtime.dst_tiles,
        num_cbs=runtime.circular_buffers,
        num_compute_threads=runtime.compute_threads,
        num_datamovement_threads=runtime.data_movement_threads,
        dram_grid_size=(1, profile.dram_channels),
        dram_bank_to_logical_worker_noc0=_inside(chip.dram_workers, grid, profile.dram_channels),
        dram_bank_to_logical_worker_noc1=_inside(chip.dram_workers_noc1, grid, profile.dram_channels),
    )


def _dram_end(board: SystemDesc, cores: int) -> int:
    """Where the DRAM of a channel ends that tensors may use: programs of all cores lie behind it.

    tt-mlir, runtime/lib/common/system_desc.cpp: each core may have as much as lies below the first L1 address that is
    free, dealt to all channels; then aligned downwards.
    """
    profile = board.ttnn
    programs = -(-profile.l1_unreserved_base * cores // profile.dram_channels)
    end = profile.dram_channel_bytes - programs
    return max(end - end % profile.dram_alignment, 0)


def _inside(workers: Sequence[Core], grid: Core, banks: int) -> tuple[Core, ...]:
    """Returns the workers of so many banks inside a grid.

    Those of rows or columns that a board of a user's own has switched off move to the nearest core that serves no bank:
    an assumption, tt-metal's own choice depends on which rows these are. Banks beyond those listed take cores likewise.
    """
    rows, columns = grid
    listed = [*workers[:banks], *[workers[-1]] * (banks - len(workers))]
    fits = [row < rows and column < columns and number < len(workers) for number, (row, column) in enumerate(listed)]
    taken = {core for core, stays in zip(listed, fits, strict=True) if stays}
    cores = [(row, column) for row in range(rows) for column in range(columns)]
    placed = []
    for (row, column), stays in zip(listed, fits, strict=True):
        if stays:
            placed.append((row, column))
            continue
        free = [core for core in cores if core not in taken] or cores
        nearest = min(free, key=lambda core: (abs(core[0] - row) + abs(core[1] - column), core))
        taken.add(nearest)
        placed.append(nearest)
    return tuple(placed)
