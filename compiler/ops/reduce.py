"""Rows of reductions over dims."""

from __future__ import annotations

from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import BOOL as FLAG
from opscope.compiler.ops.codec import I32LIST
from opscope.compiler.ops.row import BOOL, FLOAT, INT, NUMBER, PLAIN, OpRow, register_all
from opscope.compiler.target.program import Params, ReduceParams


def _params(attrs: dict[str, Any], op: Any) -> Params:
    return ReduceParams(attrs["dim_arg"], attrs["keep_dim"])


def _reduction(name: str, dtypes: frozenset[str], matrix: bool = False) -> OpRow:
    return OpRow(
        "",
        name,
        group="reduce",
        dtypes=dtypes,
        shape_rule=shapes.reduced,
        attrs={"dim_arg": I32LIST, "keep_dim": FLAG},
        params=_params,
        matrix=matrix,
        lowering="device",
    )


register_all(
    OpRow(
        "stablehlo.reduce",
        group="reduce",
        dtypes=PLAIN,
        lowering="pattern",
        reason="by what its body computes, or with its body",
    ),
    _reduction("sum", NUMBER, matrix=True),
    _reduction("mean", FLOAT, matrix=True),
    _reduction("max", NUMBER),
    _reduction("min", NUMBER),
    _reduction("prod", NUMBER),
    _reduction("reduce_and", INT | BOOL),
    _reduction("reduce_or", INT | BOOL),
    _reduction("reduce_xor", INT | BOOL),
)
