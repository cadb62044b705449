"""Rows of collectives: ops between the chips of a mesh, all of which run the same program."""

from __future__ import annotations

from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import I64, I64S, RAW, S32, TEXT, U32
from opscope.compiler.ops.row import PLAIN, OpRow, register_all
from opscope.compiler.target.program import CollectiveParams, Params

COLLECTIVES = ("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "reduce_scatter")
IDS = ("partition_id", "replica_id")
_ATTRS = {
    "groups": I64S,
    "group_size": I64,
    "dim?": I64,
    "other_dim?": I64,
    "combine?": TEXT,
    "cluster_axis?": U32,
    "reduce_type?": RAW,
    "replica_groups?": RAW,
    "source_target_pairs?": RAW,
    "split_dim?": S32,
    "split_count?": S32,
    "concat_dim?": S32,
}
"""From `cluster_axis` on these are tt-mlir's words for what the others say; nothing here reads them."""


def _params(attrs: dict[str, Any], op: Any) -> Params:
    return CollectiveParams(
        attrs["groups"], attrs["group_size"], attrs.get("dim", 0), attrs.get("other_dim", 0), attrs.get("combine", "")
    )


def _device(name: str, arity: int) -> OpRow:
    return OpRow(
        "",
        name,
        group="collective",
        arity=arity,
        dtypes=PLAIN,
        shape_rule=shapes.unchecked,
        attrs=dict(_ATTRS),
        params=_params,
        lowering="device",
    )


_KINDS = ((COLLECTIVES, 1, "between the chips of a mesh"), (IDS, 0, "the chip's place in the mesh"))
register_all(
    *(
        OpRow(f"stablehlo.{name}", group="collective", dtypes=PLAIN, lowering="pattern", reason=reason)
        for names, _, reason in _KINDS
        for name in names
    ),
    *(_device(name, arity) for names, arity, _ in _KINDS for name in names),
)
