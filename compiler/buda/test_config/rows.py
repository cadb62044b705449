"""Reads rows of a netlist's YAML for the golden: attributes, TMs, tiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

TILE = 32
Row = Mapping[str, Any]


class NotModelledError(Exception):
    """Something that this golden does not have, by name."""


def attributes_of(row: Row) -> Row:
    """Returns an op's attributes; none if it has no such key."""
    return row.get("attributes") or {}


def tile_of(row: Row) -> tuple[int, int]:
    """Returns rows and columns of the tiles of a queue or of an op's result."""
    height, width = row.get("tile_dim") or (32, 32)
    return height, width


def op_that_fills(queue: Row) -> str:
    """Returns the op that writes a queue; empty where the host does, also in place of an op of another netlist."""
    name = str(queue["input"]).strip()
    return "" if name == "HOST" or "net2net" in name else name


def tms_of(row: Row, number: int) -> Iterator[tuple[str, Any]]:
    """Yields name and argument of the TMs of an operand, and then its pad or unpad of older netlists."""
    unpad, pad = row.get(f"input_{number}_unpad"), row.get(f"input_{number}_pad")
    if unpad:
        yield "unpad", unpad
    listed = row.get(f"input_{number}_tms")
    for entry in listed if isinstance(listed, list) else ():
        yield from [(entry, None)] if isinstance(entry, str) else entry.items()
    if pad:
        yield "pad", pad


def ops_of(netlist: Row) -> dict[str, Row]:
    """Returns every op, by name."""
    return {
        name: row for graph in netlist["graphs"].values() for name, row in graph.items() if isinstance(row, Mapping)
    }


def shape_of(row: Row) -> tuple[int, int, int]:
    """Elements of a queue's entry, or of an op's result for one input, along t, rows and columns, in whole tiles."""
    rows, cols = (row["grid_size"][a] * row["mblock"][a] * row["ublock"][a] for a in range(2))
    return row["t"], rows * TILE, cols * TILE
