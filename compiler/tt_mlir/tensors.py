"""What a tensor type of tt-mlir says: shape, element type, number format, layout, memory, and cores that hold it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from xdsl.dialects import builtin as b

from opscope.compiler.errors import StageFailure
from opscope.compiler.target.formats import host_format, number_format
from opscope.compiler.target.program import TensorDesc
from opscope.compiler.tt_mlir.attributes import RawAttr, written

STAGE = "run"
"""The stage that an op fails in that the simulator lacks: tt-mlir has compiled it."""
ELEMENTS = {"f32": "f32", "bf16": "bf16", "f16": "f16", "si32": "i32", "ui32": "ui32", "ui16": "ui16", "ui8": "ui8"}
"""Element type as an executable declares it -> ours."""
_TILE = re.compile(r"!ttcore\.tile<32x32, (\w+)>")
_MEMREF = re.compile(
    r"memref<(?:\d+x)*(!ttcore\.tile<[^<>]*>|\w+), (?:#ttnn\.buffer_type<(\w+)>|#(\w+))>(?:, <(\w+)>)?"
)
_GRID = re.compile(r", <(\d+)x(\d+)(?:, [^<>]*)?>, memref<")
_BUFFERS = frozenset({"dram", "l1", "system_memory"})
_SPREADS = frozenset({"interleaved", "height_sharded", "width_sharded", "block_sharded"})


def element_of(kind: Any) -> str:
    """The element type of a tensor type, in its own word: `si32`, or the format of a tile."""
    word = written(kind.element_type) if isinstance(kind, b.TensorType) else written(kind)
    tile = _TILE.fullmatch(word)
    return tile[1] if tile else word


def described(kind: Any, op: str) -> TensorDesc:
    """Describes a tensor type as a program does. Raises StageFailure, which names `op`."""
    if not isinstance(kind, b.TensorType):
        raise StageFailure(STAGE, op, f"expected a tensor, got {written(kind)[:80]}", kind="notimpl")
    if not isinstance(kind.encoding, RawAttr):
        raise StageFailure(STAGE, op, f"expected a tensor with a layout, got {written(kind)[:80]}", kind="notimpl")
    try:
        return _described(tuple(kind.get_shape()), element_of(kind), kind.encoding.text.data)
    except ValueError as error:
        raise StageFailure(STAGE, op, str(error), kind="notimpl") from error


@lru_cache(maxsize=8192)
def _described(shape: tuple[int, ...], element: str, layout: str) -> TensorDesc:
    match, grid = _MEMREF.search(layout), _GRID.search(layout)
    if match is None or grid is None:
        raise ValueError(f"expected a layout with a grid and a memref, got {layout[:120]}")
    element_text, buffer, spread = match[1], match[2] or match[3], match[4] or "interleaved"
    if buffer not in _BUFFERS or spread not in _SPREADS:
        raise ValueError(f"expected dram, l1 or system_memory, interleaved or in shards, got {buffer}, {spread}")
    tile = _TILE.fullmatch(element_text)
    if element_text.startswith("!") and tile is None:
        raise ValueError(f"expected tiles of 32x32, got {element_text}")
    data_format = number_format(tile[1]) if tile else None
    own = ELEMENTS.get(element)
    if own is None and data_format is not None and data_format.is_float:
        own = "f32"  # tiles of a block format, whose element type is the tile itself
    if own is None:
        raise ValueError(f"expected an element type of {', '.join(ELEMENTS)}, got {element}")
    return TensorDesc(
        shape=shape,
        element_type=own,
        data_format=data_format.name if data_format is not None else host_format(own).name,
        layout="tile" if tile else "row_major",
        buffer_type=buffer,
        memory_layout=spread,
        grid=(int(grid[1]), int(grid[2])) if spread != "interleaved" else (1, 1),
    )


def on_host(desc: TensorDesc) -> TensorDesc:
    """The tensor of the host that becomes, or that is made of, a tensor of the device."""
    return TensorDesc(desc.shape, desc.element_type, host_format(desc.element_type).name, "row_major", "system_memory")
