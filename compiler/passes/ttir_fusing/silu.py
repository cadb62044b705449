"""Fuses 1 / (1 + exp(-x)) into `sigmoid`, and a value times its own sigmoid into `silu`."""

from __future__ import annotations

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import make, maker, read_once, splat
from opscope.compiler.passes.ttir_fusing.matching import exactly, fuses, orders


@fuses("div")
def sigmoid(op: RowOp) -> list[RowOp] | None:
    """Matches 1 / (1 + exp(-x))."""
    one, below = op.operands
    total = maker(below, "add")
    if not exactly(splat(one), 1.0) or total is None or not read_once(below):
        return None
    for number, raised in orders(total):
        exp = maker(raised, "exp")
        turned = maker(exp.operands[0], "neg") if exp is not None and read_once(raised) else None
        if exactly(splat(number), 1.0) and turned is not None:
            return [make("sigmoid", turned.operands, op.results[0].type, op)]
    return None


@fuses("multiply")
def silu(op: RowOp) -> list[RowOp] | None:
    """Matches x * sigmoid(x)."""
    for value, weight in orders(op):
        gate = maker(weight, "sigmoid")
        if gate is not None and gate.operands[0] is value and read_once(weight):
            return [make("silu", [value], op.results[0].type, op)]
    return None
