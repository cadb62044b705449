"""Rows of control flow, whose ops call functions that their regions become."""

from __future__ import annotations

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import SYMBOLS
from opscope.compiler.ops.row import PLAIN, OpRow, register_all
from opscope.compiler.target.program import ControlParams


def _pattern(name: str, reason: str) -> OpRow:
    return OpRow(f"stablehlo.{name}", group="control", dtypes=PLAIN, lowering="pattern", reason=reason)


def _device(name: str) -> OpRow:
    return OpRow(
        "",
        name,
        group="control",
        arity=None,
        dtypes=PLAIN,
        shape_rule=shapes.unchecked,
        attrs={"programs": SYMBOLS},
        params=lambda a, op: ControlParams(a["programs"]),
        lowering="device",
    )


register_all(
    _pattern("if", "two programs, the predicate read back"),
    _pattern("case", "a program per branch, the index read back"),
    _pattern("while", "a program for the condition, which is read back each time, and one for the body"),
    _pattern("map", "its body on whole tensors"),
    *(_device(name) for name in ("if", "case", "while")),
)
