"""Rows of convolutions."""

from __future__ import annotations

from typing import Any

from compiler.ops import shapes
from compiler.ops.codec import I32, I32S
from compiler.ops.row import NUMBER, OpRow, register_all
from compiler.target.program import Conv2dParams, Params


def _params(attrs: dict[str, Any], op: Any) -> Params:
    return Conv2dParams(
        stride=attrs["stride"],
        padding=attrs["padding"],
        dilation=attrs["dilation"],
        input_dilation=attrs["input_dilation"],
        groups=attrs["groups"],
        batch_groups=attrs["batch_groups"],
    )


register_all(
    OpRow(
        "stablehlo.convolution",
        family="conv",
        dtypes=NUMBER,
        lowering="pattern",
        reason="permute to NHWC and OIHW; 0, 1 or 2 spatial dims",
    ),
    OpRow(
        "",
        "conv2d",
        family="conv",
        arity=2,
        dtypes=NUMBER,
        shape_rule=shapes.convolved,
        attrs={
            "stride": I32S,
            "padding": I32S,
            "dilation": I32S,
            "input_dilation": I32S,
            "groups": I32,
            "batch_groups": I32,
        },
        params=_params,
        matrix=True,
        lowering="device",
    ),
)
