"""The ttir dialect: device ops on plain tensors, without layouts. All its classes are built from rows."""

from __future__ import annotations

from xdsl.ir import Dialect

from opscope.compiler.dialects.from_row import RowOp, device_op_class
from opscope.compiler.ops.layout import MOVES
from opscope.compiler.ops.row import TABLE, OpRow

CLASSES: dict[str, type[RowOp]] = {}
"""Name without prefix -> class; grows with `register`."""


def _add(row: OpRow) -> None:
    has_class = row.ttir and row.lowering in ("row", "device", "decomposed")
    if has_class and row.ttir not in MOVES and row.ttir not in CLASSES:
        CLASSES[row.ttir] = device_op_class("ttir", row.ttir, row)


TABLE.listen(_add)


def dialect() -> Dialect:
    """The xDSL dialect `ttir`."""
    return Dialect("ttir", list(CLASSES.values()), [])
