"""The canonical id of an op: equal for ops that mean the same, whoever exported them, on any night.

The id is the SHA-256 (16 hex digits) of a text written from walked objects, never of printed MLIR: the version of
this algorithm; the op's name, a custom call's target with it; its attributes sorted by name, without those that
equal the specification's default and without discardable ones; its operands, numbered by first use with their
types, or the bits of a constant that stands inside the module; its result types; its regions in the same way.
Functions that it refers to count by structure, so that no symbol name matters. Locations do not enter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from opscope.base.digest import words_digest
from opscope.harness.prepare.mlir.tokens import array_token, attribute_token, type_token
from opscope.harness.prepare.mlir.values import constant_array, literal_of

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


VERSION = "opscope-op-1"
"""Version of the algorithm, first in every hashed text, so that a change of it changes every id."""

KEPT_DISCARDABLE = frozenset({"mhlo.sharding", "mhlo.backend_config", "sdy.sharding", "sdy.sharding_per_value"})
"""Discardable attributes (those with a dialect's prefix) that change what an op computes, or where."""

_SYMBOL_NAMES = frozenset({"sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs"})

Outside = Callable[[Any], str | None]
"""Value -> its token if it comes from outside the op, else None."""


def op_name(op: Any) -> str:
    """`stablehlo.add`, or `stablehlo.custom_call:<target>`."""
    name = op.name
    return f"{name}:{op.attributes['call_target_name'].value}" if name == "stablehlo.custom_call" else name


def attribute_items(op: Any) -> list[tuple[str, Any]]:
    """The attributes of `op`, by name; a complex constant, which the bindings cannot hand out, as None."""
    attributes = op.attributes
    try:
        return sorted(attributes.items())  # their names differ, so no attribute is ever compared
    except TypeError:
        pass
    items: list[tuple[str, Any]] = []
    for name in sorted(attributes):
        try:
            items.append((name, attributes[name]))
        except TypeError:
            items.append((name, None))
    return items


def digest(text: str) -> str:
    """The id that belongs to the canonical text of an op."""
    return words_digest(f"{VERSION}\n{text}", digits=16)


class Identity:
    """Writes canonical texts for the ops of one module; remembers attributes, types and functions it has seen."""

    def __init__(self, symbol: Callable[[str], Any | None]) -> None:
        """`symbol` gives the op of that name in the module, or None."""
        self._symbol = symbol
        self._attributes: dict[Any, str] = {}
        self._types: dict[Any, str] = {}
        self._functions: dict[str, str] = {}
        self._open: list[str] = []

    def type(self, type_: Any) -> str:
        """The token of a type."""
        token = self._types.get(type_)
        if token is None:
            token = self._types[type_] = type_token(type_)
        return token

    def text(self, op: Any, outside: Outside) -> str:
        """The canonical text of `op`; `outside` gives the tokens of values from outside it."""
        return self._op(op, outside, {})

    def function(self, name: str) -> str:
        """What stands for the symbol `name`: the digest of its structure; a recursive function is named by how far
        up the chain of calls it stands, a missing one by its name."""
        if name in self._open:
            return f"!up{len(self._open) - self._open.index(name)}"
        function_digest = self._functions.get(name)
        if function_digest is not None:
            return function_digest
        op = self._symbol(name)
        if op is None:
            return f"missing:{name}"
        self._open.append(name)
        try:
            text = self._op(op, lambda _: None, {}, skip=_SYMBOL_NAMES)
        finally:
            self._open.pop()
        token = words_digest(text, digits=32)
        if not self._open or "!up" not in text:  # a text that names its callers is not theirs alone to reuse
            self._functions[name] = token
        return token

    def _op(self, op: Any, outside: Outside, inner: dict[Any, str], skip: frozenset[str] = frozenset()) -> str:
        """Text of `op`; `inner` names the values of the regions around it, up to the op the text is for."""
        operands = [inner.get(value) or outside(value) or "?" for value in op.operands]
        return "".join(
            [
                op_name(op),
                self._attributes_text(op, skip),
                f"({','.join(operands)})",
                f"->({','.join(self.type(result.type) for result in op.results)})",
                *(self._region(region, outside, inner) for region in op.regions),
            ]
        )

    def _region(self, region: Any, outside: Outside, inner: dict[Any, str]) -> str:
        lines = []
        for block in region.blocks:
            types = []
            for argument in block.arguments:
                inner[argument] = f"v{len(inner)}"
                types.append(self.type(argument.type))
            lines.append(f"^({','.join(types)})")
            for view in block.operations:
                nested = view.operation
                for result in nested.results:
                    inner[result] = f"v{len(inner)}"
                lines.append(self._op(nested, outside, inner))
        return "{" + ";".join(lines) + "}"

    def _attributes_text(self, op: Any, skip: frozenset[str]) -> str:
        if not len(op.attributes):
            return "<>"
        name = op.name
        if name == "stablehlo.constant":
            array = constant_array(op)
            return f"<{array_token(array) if array is not None else literal_of(op)}>"
        operands = op.operands
        element = self.type(operands[0].type).split("[")[0] if len(operands) else ""
        kept = []
        for key, attr in attribute_items(op):
            if key in skip or ("." in key and key not in KEPT_DISCARDABLE):
                continue
            token = self._attribute(attr)
            if not is_default(name, key, token, element):
                kept.append(f"{key}={token}")
        return f"<{','.join(kept)}>"

    def _attribute(self, attr: Any) -> str:
        token = self._attributes.get(attr)
        if token is None:
            token = attribute_token(attr, self.function)
            if not self._open:  # inside a function a symbol may stand for "the one that calls us"
                self._attributes[attr] = token
        return token
