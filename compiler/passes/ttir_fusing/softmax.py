"""Fuses exponentials divided by their sum into `softmax`."""

from __future__ import annotations

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import SSAValue, make, maker, readers
from opscope.compiler.passes.ttir_fusing.matching import fuses


@fuses("div")
def softmax(op: RowOp) -> list[RowOp] | None:
    """Matches exp(x - max(x)) / sum(exp(x - max(x))) along one dim; without the maximum it is numerically unstable."""
    top, below = op.operands
    total, raised = maker(below, "sum"), maker(top, "exp")
    if total is None or raised is None or total.operands[0] is not top or set(readers(top)) != {op, total}:
        return None
    attrs = total.read()
    if len(attrs["dim_arg"]) != 1 or not attrs["keep_dim"]:
        return None
    value, stable = _shifted(raised.operands[0], attrs)
    dim = attrs["dim_arg"][0]
    return [make("softmax", [value], op.results[0].type, op, dimension=dim, numericStable=stable)]


def _shifted(value: SSAValue, attrs: dict) -> tuple[SSAValue, bool]:
    """Returns (x, True) if the value is x - max(x), else the value itself and False."""
    op = maker(value, "subtract")
    if op is not None:
        largest = maker(op.operands[1], "max")
        if largest is not None and largest.operands[0] is op.operands[0] and largest.read() == attrs:
            return op.operands[0], True
    return value, False
