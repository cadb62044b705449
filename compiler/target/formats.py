"""Number formats on a device: looking them up by either name, and how tensors of them lie in tiles.

The formats themselves are in the one table, `opscope.base.number_formats`.
"""

from __future__ import annotations

import difflib
from functools import lru_cache

import numpy as np

from opscope.base.number_formats import ELEMENT_TYPES, FORMATS, TILE, ElementType, NumberFormat

INDEX_LIMIT = 2**30
"""Where 64-bit integers that say a place saturate on their way to the device's 32. No dim of a tensor in tiles is as
long: with the other one padded to 32 it would take 32 GiB. So one more step, add or subtract, still fits 32 bits.
"""
FACE = 16
"""Rows and columns of a face; a tile is 2x2 faces."""

INVALID = "Invalid"
"""What the back end calls a tensor without a format (code 0xFF): a name, never a format."""

_ALIASES = {f.ttcore.lower(): f.name for f in FORMATS.values() if f.ttcore}
_ALIASES |= {f.name.lower(): f.name for f in FORMATS.values()}
_ALIASES |= {f.name.lower().replace("_", ""): f.name for f in FORMATS.values() if f.name.endswith("_b")}
_ALIASES |= {"bfloat16": "Float16_b", "float32": "Float32"}


@lru_cache(maxsize=256)
def number_format(name: str) -> NumberFormat:
    """The format called `name` in either vocabulary, case ignored. Raises ValueError with the closest names."""
    alias = _ALIASES.get(name.lower())
    if name.lower() == INVALID.lower():
        raise ValueError(f"data format: expected a format, got {name!r}, which names none; try {', '.join(FORMATS)}")
    if alias is None:
        near = difflib.get_close_matches(name.lower(), _ALIASES, n=3, cutoff=0.4)
        hint = ", ".join(dict.fromkeys(_ALIASES[n] for n in near)) or ", ".join(FORMATS)
        raise ValueError(f"data format: expected a known format, got {name!r}; try {hint}")
    return FORMATS[alias]


def element_type(name: str) -> ElementType:
    """The row of MLIR element type `name`. Raises ValueError if there is none."""
    if name not in ELEMENT_TYPES:
        near = difflib.get_close_matches(name, ELEMENT_TYPES, n=3, cutoff=0.4)
        raise ValueError(
            f"element type: expected an MLIR element type, got {name!r}; try {', '.join(near or ELEMENT_TYPES)}"
        )
    return ELEMENT_TYPES[name]


def default_format(name: str) -> NumberFormat | None:
    """The device format of MLIR element type `name`, or None (then `element_type(name).why_not` says why)."""
    row = element_type(name)
    return FORMATS[row.data_format] if row.data_format else None


def host_format(name: str) -> NumberFormat:
    """The format in which the host holds MLIR element type `name`. Raises ValueError for an unknown one."""
    return element_type(name).held_in


def host_dtype(name: str) -> np.dtype:
    """The NumPy type in which the host holds MLIR element type `name`. Raises ValueError if there is none."""
    return element_type(name).numpy


def padded_tiles(shape: tuple[int, ...]) -> int:
    """Tiles that a tensor of `shape` takes: the last two dims are padded to 32, a vector is one row."""
    rows = shape[-2] if len(shape) > 1 else 1
    cols = shape[-1] if shape else 1
    lead = 1
    for dim in shape[:-2]:
        lead *= dim
    return lead * -(-rows // TILE) * -(-cols // TILE)
