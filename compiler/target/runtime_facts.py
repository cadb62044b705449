"""What tt-metal finds and sets aside on the chips of a board, which tt-mlir's system descriptor lists.

A board file has it under `runtime`; a board that tt-mlir does not know (Grayskull) has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opscope.compiler.target.board_file import COUNT, SIZE, Check, check_figures

Core = tuple[int, int]
"""Row and column of a core."""


def _is_pair(value: Any, least: int) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(COUNT[1](each) and each >= least for each in value)


def _are_pairs(value: Any, least: int) -> bool:
    return isinstance(value, list) and value != [] and all(_is_pair(each, least) for each in value)


def _is_link(value: Any) -> bool:
    return isinstance(value, list) and len(value) in (4, 5) and all(map(COUNT[1], value)) and [*value, 1][4] > 0


CORES: Check = ("a list of rows and columns, such as [[7, 3], [0, 0]]", lambda value: _are_pairs(value, 0))
RUNTIME: Mapping[str, Check] = {
    "coordinate_offset": ("a row and a column, such as [18, 18]", lambda value: _is_pair(value, 0)),
    "erisc_unreserved_base": COUNT,
    "pcie_alignment": ("a power of two", lambda value: SIZE[1](value) and value & (value - 1) == 0),
    "circular_buffers": SIZE,
    "dst_tiles": SIZE,
    "threads": (
        "numbers above 0 for compute and data_movement",
        lambda value: (
            isinstance(value, dict) and set(value) == {"compute", "data_movement"} and all(map(SIZE[1], value.values()))
        ),
    ),
    "tile_sizes": ("a list of rows and columns above 0, such as [[32, 32]]", lambda value: _are_pairs(value, 1)),
    "harvested_columns": COUNT,
    "dispatch_columns": COUNT,
    "chips": ("a list of chips", lambda value: isinstance(value, list) and value != []),
    "links": (
        "a list of chip, channel, chip, channel and perhaps how many channels follow",
        lambda value: isinstance(value, list) and all(map(_is_link, value)),
    ),
}
CHIP: Mapping[str, Check] = {"host": ("true or false", lambda value: isinstance(value, bool)), "dram_workers": CORES}
OF_SOME_CHIPS: Mapping[str, Check] = {"ethernet_cores": COUNT, "dram_workers_noc1": CORES}


@dataclass(frozen=True)
class Link:
    """One Ethernet link between two chips: the channels that it joins."""

    chip: int
    channel: int
    other_chip: int
    other_channel: int


@dataclass(frozen=True)
class ChipFacts:
    """What differs from chip to chip of a board."""

    host: bool
    """Whether the host reaches it without another chip."""
    ethernet_cores: int
    """How many of its Ethernet cores are in use."""
    dram_workers: tuple[Core, ...]
    """The worker nearest each DRAM bank, on NoC 0."""
    dram_workers_noc1: tuple[Core, ...]


@dataclass(frozen=True)
class RuntimeFacts:
    """What tt-metal finds and sets aside on a board. Sizes and addresses in bytes."""

    coordinate_offset: Core
    """Translated coordinates of the first worker."""
    erisc_unreserved_base: int
    """First L1 address of an Ethernet core that a program may use."""
    pcie_alignment: int
    circular_buffers: int
    dst_tiles: int
    """Tiles of 16 bits that Dst holds."""
    compute_threads: int
    data_movement_threads: int
    tile_sizes: tuple[Core, ...]
    harvested_columns: int
    """How many columns of cores are switched off."""
    dispatch_columns: int
    """How many columns of cores serve dispatch."""
    chips: tuple[ChipFacts, ...]
    links: tuple[Link, ...]


def runtime_facts(where: str, raw: dict[str, Any], chips: int) -> RuntimeFacts:
    """Returns what a board file has under `runtime`, for so many chips; one chip in it stands for all of them.

    Raises ValueError for a figure that is missing or impossible.
    """
    check_figures(where, raw, RUNTIME)
    links = tuple(link for each in raw.pop("links") for link in _links(each))
    if strange := [link for link in links if max(link.chip, link.other_chip) >= chips or link.chip == link.other_chip]:
        raise ValueError(
            f"{where}: expected links between two of {chips} chips, got {strange[0].chip} to {strange[0].other_chip}"
        )
    listed = raw.pop("chips")
    if len(listed) not in (1, chips):
        raise ValueError(f"{where}: expected {chips} chips, or one that stands for all, got {len(listed)}")
    threads = raw.pop("threads")
    return RuntimeFacts(
        **{**raw, "coordinate_offset": tuple(raw["coordinate_offset"]), "tile_sizes": _cores(raw["tile_sizes"])},
        compute_threads=threads["compute"],
        data_movement_threads=threads["data_movement"],
        chips=tuple(_chip(f"{where}: chip {i}", listed[min(i, len(listed) - 1)], i, links) for i in range(chips)),
        links=links,
    )


def _chip(where: str, raw: Any, number: int, links: tuple[Link, ...]) -> ChipFacts:
    """Returns the facts of a chip; without a figure of its own, all Ethernet cores in use are those of its links."""
    if not isinstance(raw, dict):
        raise ValueError(f"{where}: expected figures by name, got {type(raw).__name__}")
    check_figures(where, raw, {**CHIP, **{key: check for key, check in OF_SOME_CHIPS.items() if key in raw}})
    workers = _cores(raw["dram_workers"])
    linked = sum((link.chip == number) + (link.other_chip == number) for link in links)
    noc1 = _cores(raw["dram_workers_noc1"]) if "dram_workers_noc1" in raw else workers
    return ChipFacts(raw["host"], raw.get("ethernet_cores", linked), workers, noc1)


def _links(raw: list[int]) -> tuple[Link, ...]:
    chip, channel, other, other_channel, count = (*raw, 1)[:5]
    return tuple(Link(chip, channel + i, other, other_channel + i) for i in range(count))


def _cores(raw: list[list[int]]) -> tuple[Core, ...]:
    return tuple((row, column) for row, column in raw)
