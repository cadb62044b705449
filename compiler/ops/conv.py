"""Rows of convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import EDGES, I32, I32S, I64, I64S, TEXT, Codec
from opscope.compiler.ops.row import NUMBER, OpRow, ShapeRule, register_all
from opscope.compiler.target.program import Conv2dParams, Conv3dParams, Params, PermuteParams


def _fields(attrs: dict[str, Any]) -> dict[str, Any]:
    names = ("stride", "padding", "dilation", "input_dilation", "groups", "batch_groups")
    fields = {"input_dilation": (1,) * len(attrs["stride"]), "batch_groups": 1} | attrs
    return {name: fields[name] for name in names}


def _sizes(name: str) -> dict[str, tuple[Codec, Callable[[Any], Any]]]:
    """Sizes of image and window that tt-mlir's ttnn op has; images are NHWC here, weights window, I, O."""
    spatial = ("input_depth", "input_height", "input_width")[0 if name == "conv3d" else 1 :]
    images: dict[str, tuple[Codec, Callable[[Any], Any]]] = {
        key: (I32, lambda op, dim=dim: shapes.shape_of(op.operands[0])[dim])
        for dim, key in enumerate(("batch_size", *spatial, "in_channels"))
    }
    return images | {
        "out_channels": (I32, lambda op: shapes.shape_of(op.operands[1])[-1]),
        "kernel_size": (I32S, lambda op: shapes.shape_of(op.operands[1])[:-2]),
    }


def _device(
    name: str, shape_rule: ShapeRule, params: Callable[..., Params], arity: int | None = 2, **more: Codec
) -> OpRow:
    return OpRow(
        "",
        name,
        group="conv",
        arity=arity,
        dtypes=NUMBER,
        shape_rule=shape_rule,
        attrs={
            "stride": I32S,
            "padding": EDGES,
            "dilation": I32S,
            "input_dilation?": I32S,
            "groups": I32,
            "batch_groups?": I32,
            # tt-mlir's form, which is decomposed: dims anywhere, and a weight whose output channels come first
            **{f"{key}_dim?": I64 for key in ("batch", "channel", "depth", "height", "width")},
            **{f"{key}?": codec for key, codec in more.items()},
        },
        sizes_in_ttnn=_sizes(name),
        params=lambda a, op: params(**_fields(a), **{k: a[k] for k in more if k in a and k != "padding_mode"}),
        matrix=True,
        lowering="device",
    )


register_all(
    OpRow(
        "stablehlo.convolution",
        group="conv",
        dtypes=NUMBER,
        lowering="pattern",
        reason="permute to NHWC and HWIO, or NDHWC and DHWIO; up to 3 spatial dims",
    ),
    # Weights from the host are reordered there, because tiles of a 3x3 window alone would hold 9 of 1,024 words.
    *(
        OpRow(
            "",
            name,
            group="layout",
            dtypes=NUMBER,
            shape_rule=shapes.permuted,
            attrs={"permutation": I64S},
            params=lambda a, op: PermuteParams(a["permutation"]),
            lowering="device",
        )
        for name in ("prepare_conv2d_weights", "prepare_conv3d_weights")
    ),
    # The bias, if there is one, is its third operand.
    _device("conv2d", shapes.convolved, Conv2dParams, arity=None, activation=TEXT),
    # tt-mlir's form names what the padding holds; the decomposition takes zeros alone.
    _device("conv3d", shapes.convolved, Conv3dParams, padding_mode=TEXT),
)
