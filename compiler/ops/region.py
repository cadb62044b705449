"""Rows of ops whose body a kernel applies: scatter, sort, and reductions of any kind."""

from __future__ import annotations

from typing import Any

from opscope.compiler.errors import StageFailure
from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import BOOL, I32, I32LIST, I32S, I64, I64S, RAW, S8, S32, SYMBOLS, TEXT
from opscope.compiler.ops.row import PLAIN, Group, OpRow, register_all
from opscope.compiler.ops.shapes import Shape
from opscope.compiler.target.program import (
    BodyReduceParams,
    BodyWindowParams,
    Params,
    ScatterParams,
    SelectScatterParams,
    SortParams,
    TopkParams,
)


def _pattern(name: str, group: Group, reason: str) -> OpRow:
    return OpRow(name, group=group, dtypes=PLAIN, lowering="pattern", reason=reason)


def _device(name: str, group: Group, **fields: Any) -> OpRow:
    return OpRow("", name, group=group, arity=None, dtypes=PLAIN, lowering="device", **fields)


def _folded(op: Any, attrs: dict[str, Any]) -> Shape | None:
    return shapes.reduced(op, {"dim_arg": attrs["dim_arg"], "keep_dim": False})


def _windows(op: Any, attrs: dict[str, Any]) -> Shape | None:
    edges, shape = attrs["padding"], shapes.shape_of(op.operands[0])
    return tuple(
        shapes.window(n, w, s, edges[2 * i], edges[2 * i + 1], d, b)
        for i, (n, w, s, d, b) in enumerate(
            zip(shape, attrs["window"], attrs["stride"], attrs["dilation"], attrs["base_dilation"], strict=True)
        )
    )


_COMBINE = {"combine": TEXT, "programs": SYMBOLS}
_WINDOW = {"window": I32S, "stride": I32S, "padding": I32S}


def _topk(attrs: dict[str, Any], op: Any) -> Params:
    last = len(shapes.shape_of(op.operands[0])) - 1
    if attrs.get("dim", -1) not in (-1, last) or not attrs.get("largest", True):
        message = f"expected the largest along the last dim, got dim {attrs.get('dim')}, largest {attrs.get('largest')}"
        raise StageFailure("ttnn-to-flatbuffer", op.name, message, kind="notimpl")
    return TopkParams(attrs["k"])


register_all(
    _pattern("stablehlo.scatter", "data_movement", "general form; the usual bodies by name, others as a program"),
    _device(
        "scatter",
        "data_movement",
        shape_rule=shapes.same,
        attrs={
            # tt-mlir's form, which is decomposed: along one dim, by an index for each element of the updates
            "dim?": I32,
            "scatter_reduce_type?": RAW,
            **{
                f"{name}?": I64S
                for name in (
                    "update_window_dims",
                    "inserted_window_dims",
                    "input_batching_dims",
                    "scatter_indices_batching_dims",
                    "scatter_dims_to_operand_dims",
                )
            },
            "index_vector_dim?": I64,
            "combine?": TEXT,
            "programs?": SYMBOLS,
        },
        params=lambda a, op: ScatterParams(**a),
    ),
    _device(
        "reduce_body",
        "reduce",
        shape_rule=_folded,
        attrs={"dim_arg": I32LIST, "programs": SYMBOLS},
        params=lambda a, op: BodyReduceParams(a["dim_arg"], a["programs"]),
    ),
    _device(
        "reduce_window_body",
        "pool",
        shape_rule=_windows,
        attrs=_WINDOW | {"dilation": I32S, "base_dilation": I32S, "programs": SYMBOLS},
        params=lambda a, op: BodyWindowParams(**a),
    ),
    OpRow(
        "stablehlo.select_and_scatter",
        group="pool",
        dtypes=PLAIN,
        lowering="pattern",
        reason="select as a program, the usual scatters by name",
    ),
    _device(
        "select_and_scatter",
        "pool",
        shape_rule=shapes.same,
        attrs=_WINDOW | _COMBINE,
        params=lambda a, op: SelectScatterParams(**a),
    ),
    _pattern("stablehlo.sort", "reduce", "the comparator as a program"),
    _device(
        "sort",
        "reduce",
        shape_rule=shapes.same,
        # tt-mlir's form, which is decomposed: one operand, and its indices as the second result
        attrs={"dim": S32, "descending?": BOOL, "stable?": BOOL, "programs?": SYMBOLS},
        in_ttnn={"dim": ("dim", S8)},
        params=lambda a, op: SortParams(a["dim"], a["programs"]),
    ),
    OpRow("chlo.top_k", group="reduce", dtypes=PLAIN, lowering="pattern", reason="topk along the last dim"),
    _device(
        "topk",
        "reduce",
        shape_rule=shapes.unchecked,
        attrs={"k": I32, "dim?": I32, "largest?": BOOL, "sorted?": BOOL},
        in_ttnn={"dim?": ("dim", S32)},
        params=_topk,
    ),
)
