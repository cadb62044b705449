"""Rows of ops that move elements and compute nothing."""

from __future__ import annotations

from typing import Any

from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import F32, I32, I32LIST, I32S, I64, I64S, S32
from opscope.compiler.ops.row import PLAIN, OpRow, register_all
from opscope.compiler.ops.shape_attribute import SHAPE
from opscope.compiler.target.program import (
    BroadcastParams,
    ConcatParams,
    GatherParams,
    PadParams,
    PermuteParams,
    ReshapeParams,
    ReverseParams,
    SliceParams,
)


def _device(name: str, **fields: Any) -> OpRow:
    return OpRow("", name, group="data_movement", dtypes=PLAIN, lowering="device", **fields)


def _pattern(name: str, reason: str) -> OpRow:
    return OpRow(f"stablehlo.{name}", group="data_movement", dtypes=PLAIN, lowering="pattern", reason=reason)


def _missing(name: str, kind: Any, reason: str) -> OpRow:
    return OpRow(f"stablehlo.{name}", group="data_movement", dtypes=PLAIN, lowering=kind, reason=reason)


register_all(
    _pattern("get_dimension_size", "full: shapes are static"),
    _pattern("transpose", "permute"),
    _pattern("reshape", "reshape"),
    _pattern("broadcast_in_dim", "permute, reshape, broadcast"),
    _pattern("broadcast", "reshape, broadcast"),
    _pattern("slice", "slice_static"),
    _pattern("concatenate", "concat"),
    _pattern("pad", "pad with a constant value, or interior ones by the same kernel"),
    _pattern("reverse", "reverse"),
    _pattern("gather", "gather in its general form"),
    _device(
        "permute",
        shape_rule=shapes.permuted,
        attrs={"permutation": I64S},
        params=lambda a, op: PermuteParams(a["permutation"]),
    ),
    _device(
        "reshape", shape_rule=shapes.declared, attrs={"shape": I32LIST}, params=lambda a, op: ReshapeParams(a["shape"])
    ),
    _device(
        "broadcast",
        ttnn="repeat",
        kernel="broadcast",
        shape_rule=shapes.unchecked,
        attrs={"broadcast_dimensions": I64S},
        in_ttnn={"broadcast_dimensions": ("repeat_dims", SHAPE)},
        params=lambda a, op: BroadcastParams(shapes.shape_of(op.results[0])),
    ),
    _device(
        "slice_static",
        shape_rule=shapes.sliced,
        attrs={"begins": I32LIST, "ends": I32LIST, "step": I32LIST},
        params=lambda a, op: SliceParams(a["begins"], a["ends"], a["step"]),
    ),
    _device(
        "concat",
        arity=None,
        shape_rule=shapes.concatenated,
        attrs={"dim": S32},
        params=lambda a, op: ConcatParams(a["dim"]),
    ),
    _device(
        "pad",
        arity=None,
        shape_rule=shapes.padded,
        attrs={"padding": I32S, "interior?": I32S, "value?": F32},
        params=lambda a, op: PadParams(
            a["padding"][0::2],
            a["padding"][1::2],
            a.get("interior", (0,) * (len(a["padding"]) // 2)),
            a.get("value", 0.0),
        ),
    ),
    _device(
        "reverse",
        shape_rule=shapes.same,
        attrs={"dimensions": I64S},
        params=lambda a, op: ReverseParams(a["dimensions"]),
    ),
    _device(
        "gather",
        arity=2,
        shape_rule=shapes.unchecked,
        attrs={
            # tt-mlir's form, which is decomposed: along one dim, by an index for each element of the result
            "dim?": I32,
            "offset_dims?": I64S,
            "collapsed_slice_dims?": I64S,
            "operand_batching_dims?": I64S,
            "start_indices_batching_dims?": I64S,
            "start_index_map?": I64S,
            "index_vector_dim?": I64,
            "slice_sizes?": I64S,
        },
        params=lambda a, op: GatherParams(**a),
    ),
    _pattern("dynamic_slice", "gather of one slice: start indices clamped as the specification asks"),
    _pattern("dynamic_update_slice", "the update shifted by a gather, and a mask of where it lands"),
    _missing("set_dimension_size", "never", "gives a buffer, placed when the program is compiled, a size at run time"),
    _missing("torch_index_select", "never", "left the StableHLO specification; exporters write gather"),
)

__all__ = ["I32"]
