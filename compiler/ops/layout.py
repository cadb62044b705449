"""Rows of ttnn ops that move a tensor between host and device, or change its layout there."""

from __future__ import annotations

from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import BOOL as FLAG
from opscope.compiler.ops.codec import RAW
from opscope.compiler.ops.row import INT, PLAIN, OpRow, register_all
from opscope.compiler.target.program import LayoutParams, Params


def _params(attrs: dict[str, Any], op: Any) -> Params:
    return LayoutParams()


def _move(name: str, arity: int = 1, attrs: dict[str, Any] | None = None) -> OpRow:
    return OpRow(
        "",
        name,
        group="layout",
        arity=arity,
        dtypes=PLAIN,
        shape_rule=shapes.same,
        attrs=attrs or {},
        params=_params,
        lowering="device",
    )


register_all(
    _move("to_layout", attrs={"layout": RAW}),
    _move("to_device", arity=2),
    _move("from_device"),
    _move("to_memory_config"),
    _move("deallocate", attrs={"force?": FLAG}),
    # The host narrows 64-bit indices to 32 bits on the way to tiles.
    OpRow(
        "",
        "narrow_index",
        group="data_movement",
        ttnn="to_layout",
        dtypes=INT,
        shape_rule=shapes.same,
        params=_params,
        lowering="device",
    ),
)
MOVES = frozenset({"to_layout", "to_device", "from_device", "to_memory_config", "deallocate"})
"""Kernels without parameters: the description of their result defines what they do."""
