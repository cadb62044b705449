"""Rows of ops that language models run while they generate: caches of keys and values, attention over them, rotary
positions, running sums.

Names and operands are tt-mlir's. A cache is (batch, heads, positions, width); a paged one is (blocks, heads, positions
of a block, width), and row u of its page table (users, blocks of a user) names the blocks of user u. StableHLO has no
such ops: patterns and `ttir-fusing` find them, tt-xla's custom calls name them, and what no pattern finds runs as the
ops that it is made of.
"""

from __future__ import annotations

from typing import Any

from xdsl.utils.exceptions import VerifyException

from opscope.compiler.errors import StageFailure
from opscope.compiler.ops import shapes
from opscope.compiler.ops.codec import BOOL as FLAG
from opscope.compiler.ops.codec import F32, I32, I32S, I64, U32, Codec
from opscope.compiler.ops.row import FLOAT, NUMBER, OpRow, ShapeRule, register_all
from opscope.compiler.target.fused_params import AttentionParams, CacheParams
from opscope.compiler.target.program import Params, ReduceParams


def _written(op: Any, attrs: dict[str, Any]) -> shapes.Shape:
    """The cache's shape. Raises VerifyException for an input that does not fit into it."""
    cache, new = (shapes.shape_of(v) for v in op.operands[:2])
    first = attrs.get("batch_offset", 0)
    fits = (
        len(cache) == len(new) == 4
        and (cache[1], cache[3]) == (new[1], new[3])
        and new[2] <= cache[2]
        and 0 <= first <= cache[0] - new[0]
    )
    if not fits:
        raise VerifyException(f"{op.name}: expected an input that fits into the cache {cache}, got {new} at {first}")
    if op.ROW.ttir == "update_cache" and new[2] != 1:
        raise VerifyException(f"{op.name}: expected an input of one position, got {new[2]}")
    return cache


def _paged(op: Any, attrs: dict[str, Any]) -> shapes.Shape:
    """The cache's shape. Raises VerifyException for an input or a page table that does not fit to it."""
    cache, new = (shapes.shape_of(v) for v in op.operands[:2])
    table = shapes.shape_of(op.operands[3 if op.ROW.ttir == "paged_update_cache" else 2])
    if len(cache) != 4 or len(new) != 4 or len(table) != 2 or cache[3] != new[3]:
        raise VerifyException(f"{op.name}: expected blocks, new values and a page table, got {cache}, {new}, {table}")
    if op.ROW.ttir == "paged_update_cache":
        if new[0] != 1 or new[1] != table[0] or new[2] < cache[1]:
            raise VerifyException(
                f"{op.name}: expected new values of (1, {table[0]} users, {cache[1]} heads or more, width), got {new}"
            )
    elif new[1] != cache[1] or new[2] > table[1] * cache[2] or new[0] > table[0]:
        raise VerifyException(
            f"{op.name}: expected new values of at most {table[1]} blocks of {cache[2]} positions, got {new}"
        )
    return cache


def _cache(name: str, arity: int | None, shape_rule: ShapeRule, **attrs: Codec) -> OpRow:
    return OpRow(
        "",
        name,
        group="data_movement",
        arity=arity,
        dtypes=FLOAT,
        shape_rule=shape_rule,
        attrs={f"{key}?": codec for key, codec in attrs.items()},
        params=lambda a, op: CacheParams(a.get("batch_offset", 0)),
        lowering="device",
    )


def attention(attrs: dict[str, Any], op: Any) -> Params:
    """Without a scale it is one over the root of the size of a head, as in tt-mlir. Raises StageFailure."""
    own = {"scaled_dot_product_attention": 3}.get(op.ROW.ttir, 4)
    segments = attrs.get("operandSegmentSizes") or (1,) * len(op.operands)
    # The last of tt-mlir's operands is a sink, wherever the op counts them.
    sink = "operandSegmentSizes" in attrs and len(segments) > own + 1 and bool(segments[-1])
    if "sliding_window_size" in attrs or sink:
        got = "a sliding window" if "sliding_window_size" in attrs else "a sink"
        message = f"expected attention over all that a mask allows, got {got}"
        raise StageFailure("ttnn-to-flatbuffer", op.name, message, kind="notimpl")
    causal = attrs.get("is_causal", op.ROW.ttir != "scaled_dot_product_attention")
    if op.ROW.ttir == "scaled_dot_product_attention_decode" and causal and len(op.operands) != 4:
        message = f"expected positions and no mask after the values, got {len(op.operands) - 3} operands"
        raise StageFailure("ttnn-to-flatbuffer", op.name, message, kind="notimpl")
    if op.ROW.ttir == "paged_scaled_dot_product_attention_decode":
        masked = "operandSegmentSizes" in attrs and bool(segments[4])
        if causal == masked or len(op.operands) != 5:
            got = "a mask" if masked else f"{len(op.operands)} operands"
            wanted = "positions and no mask" if causal else "a mask and no positions"
            message = f"expected {wanted} after the page table, got {got}"
            raise StageFailure("ttnn-to-flatbuffer", op.name, message, kind="notimpl")
    size = shapes.shape_of(op.operands[0])[-1]
    return AttentionParams(attrs.get("scale", size**-0.5), causal)


def _grouped(op: Any, attrs: dict[str, Any]) -> shapes.Shape:
    """(batch, heads, positions, width of values). Raises VerifyException where heads do not share keys evenly."""
    query, key, value = (shapes.shape_of(v) for v in op.operands[:3])
    if len(query) == 4 and (key[:3] != value[:3] or query[0] != key[0] or query[1] % key[1] or query[3] != key[3]):
        raise VerifyException(
            f"{op.name}: expected heads that share keys and values evenly, got {query}, {key} and {value}"
        )
    return (*query[:-1], value[-1])


def _decoded(op: Any, attrs: dict[str, Any]) -> shapes.Shape:
    """(1, batch, heads, width of values) of one position. Raises VerifyException for other operands."""
    query, key, value = (shapes.shape_of(v) for v in op.operands[:3])
    users = key[0] if op.ROW.ttir == "scaled_dot_product_attention_decode" else shapes.shape_of(op.operands[3])[0]
    fits = len(query) == len(key) == 4 and query[0] == 1 and query[1] == users and key[:3] == value[:3]
    if not fits or query[2] % key[1] or query[3] != key[3]:
        raise VerifyException(
            f"{op.name}: expected a query of (1, {users} users, heads, width) that share keys evenly, got {query}, "
            f"{key} and {value}"
        )
    return (*query[:-1], value[-1])


def _attention(name: str, shape_rule: ShapeRule) -> OpRow:
    return OpRow(
        "",
        name,
        group="matmul",
        arity=None,
        dtypes=FLOAT,
        shape_rule=shape_rule,
        attrs={"is_causal?": FLAG, "scale?": F32, "sliding_window_size?": U32, "operandSegmentSizes?": I32S},
        params=attention,
        matrix=True,
        lowering="device",
    )


def _rotated(op: Any, attrs: dict[str, Any]) -> shapes.Shape:
    """The input's shape. Raises VerifyException for angles that do not broadcast to it, or an odd width."""
    shape, *angles = (shapes.shape_of(v) for v in op.operands)
    if (
        len(shape) != 4
        or shape[-1] % 2
        or any(angle[-1] != shape[-1] or shapes.broadcast(shape, angle) != shape for angle in angles)
    ):
        raise VerifyException(f"{op.name}: expected cosines and sines of the input's width, got {shape} and {angles}")
    return shape


register_all(
    _cache("update_cache", 3, _written, batch_offset=I32),
    _cache("fill_cache", 2, _written, batch_offset=I32),
    _cache("paged_update_cache", 4, _paged, share_cache=FLAG),
    _cache("paged_fill_cache", None, _paged),
    _attention("scaled_dot_product_attention", _grouped),
    _attention("scaled_dot_product_attention_decode", _decoded),
    _attention("paged_scaled_dot_product_attention_decode", _decoded),
    OpRow("", "rotary_embedding", group="eltwise", arity=3, dtypes=FLOAT, shape_rule=_rotated, lowering="device"),
    *(
        OpRow(
            "",
            name,
            group="reduce",
            dtypes=NUMBER,
            shape_rule=shapes.same,
            attrs={"dim": I64},
            params=lambda a, op: ReduceParams((a["dim"] % max(len(shapes.shape_of(op.operands[0])), 1),), True),
            lowering="device",
        )
        for name in ("cumsum", "cumprod")
    ),
)
