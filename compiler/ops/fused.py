"""Rows of fused ops: they have no StableHLO op, and their kernel computes what several ops did."""

from __future__ import annotations

from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import BOOL as FLAG
from opscope.compiler.ops.codec import F32, I32S, I64S, S32, TEXT
from opscope.compiler.ops.row import FLOAT, OpRow, register_all
from opscope.compiler.target.fused_params import NormParams, SoftmaxParams
from opscope.compiler.target.program import EltwiseParams, MatmulParams, Params


def _product(attrs: dict[str, Any], op: Any) -> Params:
    return MatmulParams(attrs["transpose_a"], attrs["transpose_b"], attrs.get("activation", ""))


def _gelu(attrs: dict[str, Any], op: Any) -> Params:
    return EltwiseParams((1.0,) if attrs.get("approximate") == "tanh" else ())


def _norm(name: str) -> OpRow:
    return OpRow(
        "",
        name,
        group="norm",
        arity=None,
        dtypes=FLOAT,
        shape_rule=shapes.same,
        attrs={"normalized_shape": I64S, "epsilon": F32, "operandSegmentSizes?": I32S},
        params=lambda a, op: NormParams(a["epsilon"]),
        lowering="device",
    )


register_all(
    OpRow("", "relu", dtypes=FLOAT, lowering="device"),
    OpRow("", "silu", dtypes=FLOAT, lowering="device"),
    OpRow("", "gelu", dtypes=FLOAT, attrs={"approximate?": TEXT}, params=_gelu, lowering="device"),
    OpRow(
        "",
        "linear",
        group="matmul",
        arity=3,
        dtypes=FLOAT,
        shape_rule=shapes.product,
        attrs={"transpose_a": FLAG, "transpose_b": FLAG, "activation?": TEXT},
        params=_product,
        matrix=True,
        lowering="device",
    ),
    OpRow(
        "",
        "softmax",
        group="norm",
        dtypes=FLOAT,
        shape_rule=shapes.same,
        attrs={"dimension": S32, "numericStable?": FLAG},
        params=lambda a, op: SoftmaxParams(a["dimension"], a.get("numericStable", False)),
        lowering="device",
    ),
    _norm("layer_norm"),
    _norm("rms_norm"),
)
