"""Rows of linear algebra and batch normalisation."""

from __future__ import annotations

from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import BOOL
from opscope.compiler.ops.row import FLOAT, OpRow, register_all
from opscope.compiler.ops.shapes import Shape
from opscope.compiler.target.program import CholeskyParams, TriangularSolveParams


def _solution(op: Any, attrs: dict[str, Any]) -> Shape | None:
    """The shape of operand 1."""
    return shapes.shape_of(op.operands[1])


def _pattern(name: str, reason: str) -> OpRow:
    return OpRow(f"stablehlo.{name}", group="linalg", dtypes=FLOAT, lowering="pattern", reason=reason)


_SPELLED = "as the specification writes it in simpler ops"
register_all(
    _pattern("batch_norm_inference", _SPELLED),
    _pattern("batch_norm_training", _SPELLED),
    _pattern("batch_norm_grad", _SPELLED),
    _pattern("cholesky", "a kernel that goes by columns"),
    _pattern("triangular_solve", "a kernel that goes by rows"),
    OpRow(
        "",
        "cholesky",
        group="linalg",
        shape_rule=shapes.same,
        attrs={"lower": BOOL},
        params=lambda a, op: CholeskyParams(a["lower"]),
        lowering="device",
    ),
    OpRow(
        "",
        "triangular_solve",
        group="linalg",
        arity=2,
        shape_rule=_solution,
        attrs={"left_side": BOOL, "lower": BOOL, "unit_diagonal": BOOL, "transpose_a": BOOL},
        params=lambda a, op: TriangularSolveParams(**a),
        lowering="device",
    ),
)
