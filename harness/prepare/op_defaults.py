"""Default values of attributes in the StableHLO specification, one row each.

An op with a default written out equals one without it, so `opscope.harness.prepare.identity` drops both.
"""

from __future__ import annotations

import re

_ONES = r"i64<1?(,1)*>"
_ZERO_PADS = r"splat:(00)+:i64\[\d+,2\]|dense:[0-9a-f]+:i64\[0,2\]"
_ANY = ""

_ROWS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    # ops (_ANY: every one), attribute, pattern of the token (opscope.harness.prepare.mlir.tokens) that equals the
    # default
    ((_ANY,), "precision_config", r"\[(PrecisionAttr<DEFAULT>)?(,PrecisionAttr<DEFAULT>)*\]"),
    ((_ANY,), "result_accuracy", r"ResultAccuracyAttr<0{16};0{16};0;DEFAULT>"),
    ((_ANY,), "channel_handle", r"ChannelHandle<0;0>"),
    (("convolution", "dynamic_conv", "reduce_window", "select_and_scatter"), "window_strides", _ONES),
    (("convolution", "dynamic_conv"), "lhs_dilation", _ONES),
    (("convolution", "dynamic_conv"), "rhs_dilation", _ONES),
    (("convolution", "reduce_window", "select_and_scatter"), "padding", _ZERO_PADS),
    (("convolution", "dynamic_conv"), "window_reversal", r"b<0?(,0)*>"),
    (("reduce_window",), "base_dilations", _ONES),
    (("reduce_window",), "window_dilations", _ONES),
    (("select_and_scatter",), "window_dimensions", _ONES),
    (("gather", "dynamic_gather", "scatter"), "indices_are_sorted", "b0"),
    (("scatter",), "unique_indices", "b0"),
    (("sort",), "dimension", r"-1:i64"),
    (("sort",), "is_stable", "b0"),
    (("cholesky",), "lower", "b0"),
    (("composite",), "version", r"0:i32"),
    (("composite",), "composite_attributes", r"\{\}"),
    (("custom_call",), "has_side_effect", "b0"),
    (("custom_call",), "backend_config", r"b''"),
    (("custom_call",), "api_version", r"1:i32"),
    (("custom_call",), "called_computations", r"\[\]"),
    (("custom_call",), "output_operand_aliases", r"\[\]"),
    (("infeed",), "infeed_config", r"b''"),
    (("outfeed",), "outfeed_config", r"b''"),
    (("send", "recv"), "is_host_transfer", "b0"),
)

_DEFAULTS: dict[tuple[str, str], re.Pattern[str]] = {
    (f"stablehlo.{op}" if op else op, attribute): re.compile(pattern) for ops, attribute, pattern in _ROWS for op in ops
}


def is_default(op_name: str, attribute: str, token: str, element_type: str) -> bool:
    """Whether `token` is the specification's default of `attribute` of `op_name`. `element_type`
    is that of the first operand: the default of a comparison's type depends on it."""
    if attribute == "compare_type":
        if element_type.startswith("ui") or element_type == "i1":
            kind = "UNSIGNED"
        else:
            kind = "SIGNED" if element_type.startswith("i") else "FLOAT"
        return token in (f"ComparisonTypeAttr<{kind}>", "ComparisonTypeAttr<NOTYPE>")
    pattern = _DEFAULTS.get((op_name, attribute)) or _DEFAULTS.get((_ANY, attribute))
    return pattern is not None and pattern.fullmatch(token) is not None
