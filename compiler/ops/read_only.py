"""Types that weights have and nothing computes in, such as integers of 4 bits: which ops may have them."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from opscope.compiler.ops.element_text import element_text
from opscope.compiler.ops.row import TABLE
from opscope.compiler.target.formats import ELEMENT_TYPES, ElementType

CONVERSIONS = frozenset({"stablehlo.convert", "ttir.typecast"})
MOVING = "data_movement"
STORED = frozenset({"stablehlo.constant", "ttir.constant", "ttir.full"})
BITS = frozenset({"stablehlo.bitcast_convert", "ttir.bitcast_convert"})
"""Moves that read how a datum is stored, which is wider than the type."""


def computed_in(op: Operation) -> ElementType | None:
    """The type that is read only and that an op computes in; None if it has none, moves its values or converts them to
    another type."""
    narrow = [row for value in (*op.operands, *op.results) if (row := _row(value)) is not None and row.read_only]
    if not narrow or op.name in STORED or (_group(op.name) == MOVING and op.name not in BITS):
        return None
    gives = [row for value in op.results if (row := _row(value)) is not None and row.read_only]
    return None if op.name in CONVERSIONS and not gives else narrow[0]


def _row(value: Any) -> ElementType | None:
    return ELEMENT_TYPES.get(element_text(getattr(value.type, "element_type", "")))


def _group(name: str) -> str:
    dialect, _, short = name.partition(".")
    if dialect in ("ttir", "ttnn"):
        row = TABLE.named(dialect, short)
        return row.group if row is not None else ""
    rows = TABLE.stablehlo(name)
    return rows[0].group if rows else ""
