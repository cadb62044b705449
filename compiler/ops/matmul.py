"""Rows of contractions."""

from __future__ import annotations

from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import BOOL as FLAG
from opscope.compiler.ops.codec import TEXT
from opscope.compiler.ops.row import NUMBER, OpRow, register_all
from opscope.compiler.target.program import MatmulParams, Params


def _params(attrs: dict[str, Any], op: Any) -> Params:
    return MatmulParams(attrs["transpose_a"], attrs["transpose_b"], attrs.get("activation", ""))


register_all(
    OpRow(
        "stablehlo.dot_general",
        group="matmul",
        dtypes=NUMBER,
        lowering="pattern",
        reason="permute and reshape to [batch, rows, inner] x [batch, inner, columns]",
    ),
    OpRow("stablehlo.dot", group="matmul", dtypes=NUMBER, lowering="pattern", reason="as dot_general"),
    OpRow(
        "",
        "matmul",
        group="matmul",
        arity=2,
        dtypes=NUMBER,
        shape_rule=shapes.product,
        attrs={"transpose_a": FLAG, "transpose_b": FLAG, "activation?": TEXT},
        params=_params,
        matrix=True,
        lowering="device",
    ),
)
