"""Rows of window reductions."""

from __future__ import annotations

from math import prod
from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import BOOL as FLAG
from opscope.compiler.ops.codec import EDGES, F32, I32S, S32, Codec
from opscope.compiler.ops.row import FLOAT, NUMBER, PLAIN, OpRow, register_all
from opscope.compiler.target.program import Params, Pool2dParams

_WINDOW = {"kernel": I32S, "stride": I32S, "padding": EDGES, "dilation": I32S, "ceil_mode?": FLAG}
"""`ceil_mode` is always false here: a window that reaches over the edge gets explicit padding instead."""


def _params(attrs: dict[str, Any], op: Any) -> Params:
    return Pool2dParams(
        window=attrs["kernel"],
        stride=attrs["stride"],
        padding=attrs["padding"],
        dilation=attrs["dilation"],
        divisor=attrs.get("divisor", float(prod(attrs["kernel"])) if op.ROW.ttir == "avg_pool2d" else 1.0),
    )


def _pool(name: str, dtypes: frozenset[str], matrix: bool = False, **more: Codec) -> OpRow:
    return OpRow(
        "",
        name,
        group="pool",
        dtypes=dtypes,
        shape_rule=shapes.pooled,
        attrs=_WINDOW | more,
        in_ttnn={"kernel": ("kernel_size", I32S)},
        sizes_in_ttnn={
            key: (S32, lambda op, dim=dim: shapes.shape_of(op.operands[0])[dim])
            for dim, key in enumerate(("batch_size", "input_height", "input_width", "channels"))
        },
        params=_params,
        matrix=matrix,
        lowering="device",
    )


register_all(
    OpRow(
        "stablehlo.reduce_window",
        group="pool",
        dtypes=PLAIN,
        lowering="pattern",
        reason="max, min or sum over at most two window dims as pooling, all others by their body",
    ),
    _pool("max_pool2d", dtypes=NUMBER),
    _pool("min_pool2d", dtypes=NUMBER),
    _pool("sum_pool2d", dtypes=NUMBER, matrix=True),
    _pool("avg_pool2d", dtypes=FLOAT, matrix=True, **{"divisor?": F32, "count_include_pad?": FLAG}),
)
