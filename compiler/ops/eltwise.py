"""Rows of elementwise ops: unary, binary, comparison, selection, conversion."""

from __future__ import annotations

from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import BOOL as FLAG
from opscope.compiler.ops.codec import S32
from opscope.compiler.ops.row import BOOL, FLOAT, INT, NUMBER, PLAIN, OpRow, register_all
from opscope.compiler.target.program import EltwiseParams, Params

UNARY_FLOAT = {
    "cbrt": "cbrt",
    "ceil": "ceil",
    "cosine": "cos",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "floor": "floor",
    "is_finite": "isfinite",
    "log": "log",
    "log_plus_one": "log1p",
    "logistic": "sigmoid",
    "round_nearest_afz": "round_afz",
    "round_nearest_even": "round_even",
    "rsqrt": "rsqrt",
    "sine": "sin",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}
CHLO_FLOAT = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "erfc", "sinh", "tan")
"""chlo ops that the device has itself; all others without a row are legalised at the door."""
register_all(*(OpRow(f"stablehlo.{spec}", name) for spec, name in UNARY_FLOAT.items()))
register_all(
    OpRow("stablehlo.abs", "abs", dtypes=NUMBER),
    OpRow("stablehlo.negate", "neg", dtypes=NUMBER),
    OpRow("stablehlo.sign", "sign", dtypes=NUMBER),
    OpRow("stablehlo.not", "logical_not", dtypes=BOOL),
    OpRow("stablehlo.not", "bitwise_not", dtypes=INT),
    OpRow("stablehlo.popcnt", "popcnt", dtypes=INT),
    OpRow("stablehlo.count_leading_zeros", "count_leading_zeros", dtypes=INT),
    *(OpRow(f"chlo.{name}", name) for name in CHLO_FLOAT),
    OpRow("chlo.erf_inv", "erfinv"),
    # Not a StableHLO op: the second half of a division on the Buda route.
    OpRow("", "reciprocal", lowering="device"),
    OpRow("chlo.square", dtypes=NUMBER, lowering="pattern", reason="multiply(x, x)"),
)
register_all(
    OpRow("stablehlo.add", "add", arity=2, dtypes=NUMBER),
    OpRow("stablehlo.add", "logical_or", arity=2, dtypes=BOOL),
    OpRow("stablehlo.subtract", "subtract", arity=2, dtypes=NUMBER),
    OpRow("stablehlo.multiply", "multiply", arity=2, dtypes=NUMBER),
    OpRow("stablehlo.multiply", "logical_and", arity=2, dtypes=BOOL),
    OpRow("stablehlo.divide", "div", ttnn="divide", arity=2, dtypes=NUMBER),
    OpRow("stablehlo.maximum", "maximum", arity=2, dtypes=NUMBER),
    OpRow("stablehlo.maximum", "logical_or", arity=2, dtypes=BOOL),
    OpRow("stablehlo.minimum", "minimum", arity=2, dtypes=NUMBER),
    OpRow("stablehlo.minimum", "logical_and", arity=2, dtypes=BOOL),
    OpRow("stablehlo.power", "pow", ttnn="pow_tensor", arity=2, dtypes=NUMBER),
    OpRow("stablehlo.remainder", "remainder", arity=2, dtypes=NUMBER),
    OpRow("stablehlo.atan2", "atan2", arity=2),
    OpRow("stablehlo.and", "logical_and", arity=2, dtypes=BOOL),
    OpRow("stablehlo.and", "bitwise_and", arity=2, dtypes=INT),
    OpRow("stablehlo.or", "logical_or", arity=2, dtypes=BOOL),
    OpRow("stablehlo.or", "bitwise_or", arity=2, dtypes=INT),
    OpRow("stablehlo.xor", "logical_xor", arity=2, dtypes=BOOL),
    OpRow("stablehlo.xor", "bitwise_xor", arity=2, dtypes=INT),
    OpRow("chlo.mulhi", "mulhi", arity=2, dtypes=INT),
    OpRow("stablehlo.shift_left", "logical_left_shift", arity=2, dtypes=INT),
    OpRow("stablehlo.shift_right_arithmetic", "right_shift", arity=2, dtypes=INT),
    OpRow("stablehlo.shift_right_logical", "logical_right_shift", arity=2, dtypes=INT),
)


def _precision(attrs: dict[str, Any], op: Any) -> Params:
    return EltwiseParams((float(attrs["exponent_bits"]), float(attrs["mantissa_bits"])))


register_all(
    OpRow("stablehlo.select", "where", arity=3, dtypes=BOOL),
    OpRow(
        "stablehlo.convert",
        "typecast",
        dtypes=PLAIN,
        # Whether tt-mlir may fold two conversions of which the first loses something; nothing here folds those.
        attrs={"conservative_folding?": FLAG},
        in_ttnn={"conservative_folding?": None},
    ),
    OpRow("stablehlo.clamp", dtypes=NUMBER, lowering="pattern", reason="clamp_tensor with the operand first"),
    OpRow("", "clamp_tensor", arity=3, dtypes=NUMBER, lowering="device"),
    OpRow("stablehlo.compare", dtypes=PLAIN, lowering="pattern", reason="one device op per direction"),
    *(
        OpRow("", name, arity=2, dtypes=PLAIN, lowering="device", group="eltwise")
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    ),
    OpRow("stablehlo.bitcast_convert", group="data_movement", dtypes=PLAIN, lowering="pattern", reason="the same bits"),
    OpRow("", "bitcast_convert", group="data_movement", dtypes=NUMBER, lowering="device", shape_rule=shapes.unchecked),
    OpRow("stablehlo.reduce_precision", dtypes=FLOAT, lowering="pattern", reason="its two attributes renamed"),
    OpRow(
        "", "reduce_precision", attrs={"exponent_bits": S32, "mantissa_bits": S32}, params=_precision, lowering="device"
    ),
)
