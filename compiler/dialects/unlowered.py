"""What the op table says of ops of ttir and ttnn that nothing lowers: these are read, printed and refused by name."""

from __future__ import annotations

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation

from opscope.compiler.ops.row import TABLE


def why_not(op: Operation) -> tuple[str, str] | None:
    """Returns kind and reason if the table knows an op of ttir or ttnn and does not lower it."""
    full = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
    dialect, _, name = full.partition(".")
    row = TABLE.named(dialect, name) if dialect in ("ttir", "ttnn") else None
    return (row.lowering, row.reason) if row is not None and not row.lowered else None


__all__ = ["why_not"]
