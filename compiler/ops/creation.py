"""Rows of ops that create tensors without operands."""

from __future__ import annotations

from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import I32S, I64, RAW, S64
from opscope.compiler.ops.row import PLAIN, OpRow, register_all
from opscope.compiler.ops.shape_attribute import SHAPE
from opscope.compiler.target.program import ArangeParams, ConstantParams, FullParams, Params


def _arange(attrs: dict[str, Any], op: Any) -> Params:
    return ArangeParams(shapes.shape_of(op.results[0]), attrs["arange_dimension"], attrs["start"], attrs["step"])


def _constant(attrs: dict[str, Any], op: Any) -> Params:
    return ConstantParams(shapes.shape_of(op.results[0]), attrs["value"].data.data)


def _full(attrs: dict[str, Any], op: Any) -> Params:
    """The fill value in the result's own element type: narrowed from f32, wrapped from i32."""
    value, element = attrs["fill_value"], op.results[0].type.element_type
    number = value.value.data
    if hasattr(element, "width"):
        raw = (int(number) % (1 << max(8, element.width.data))).to_bytes(max(1, element.width.data // 8), "little")
    else:
        raw = element.pack((float(number),))
    return FullParams(shapes.shape_of(op.results[0]), raw)


def _device(name: str, **fields: Any) -> OpRow:
    return OpRow("", name, group="creation", arity=0, dtypes=PLAIN, lowering="device", **fields)


register_all(
    OpRow("stablehlo.constant", group="creation", dtypes=PLAIN, lowering="pattern", reason="full where all are equal"),
    OpRow("stablehlo.iota", group="creation", dtypes=PLAIN, lowering="pattern", reason="arange"),
    _device(
        "full",
        shape_rule=shapes.declared,
        attrs={"shape": I32S, "fill_value": RAW},
        in_ttnn={"shape": ("shape", SHAPE)},
        params=_full,
    ),
    _device("constant", shape_rule=shapes.unchecked, attrs={"value": RAW}, params=_constant),
    _device(
        "arange",
        shape_rule=shapes.unchecked,
        attrs={"start": S64, "end": S64, "step": S64, "arange_dimension": I64},
        params=_arange,
    ),
)
