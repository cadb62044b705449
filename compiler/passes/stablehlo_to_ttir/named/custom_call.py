"""Custom calls `tt.*` and `mhlo.*` that tt-xla and torch-xla emit: the op of that name, its attributes from their text.

A call hands its attributes over as strings, in `mhlo.frontend_attributes`. Which optional operands are there is said by
attributes too, and tt-mlir's op counts them in `operandSegmentSizes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from opscope.compiler.dialects.stablehlo import SpecAttr
from opscope.compiler.dialects.ttcore import ShardDirectionAttr, ShardTypeAttr
from opscope.compiler.ir import text
from opscope.compiler.ops.codec import SI32, UI32
from opscope.compiler.ops.custom_calls import find
from opscope.compiler.ops.row import TABLE
from opscope.compiler.passes.stablehlo_to_ttir.custom_call import target_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit, named
from opscope.compiler.passes.stablehlo_to_ttir.named.composites import as_op

Write = Callable[[str], Attribute]


def _flag(word: str) -> Attribute:
    return BoolAttr.from_bool(word.lower() == "true")


def _i32(word: str) -> Attribute:
    return IntegerAttr(int(word), i32)


def _u32(word: str) -> Attribute:
    return IntegerAttr(int(word), UI32)


def _s32(word: str) -> Attribute:
    return IntegerAttr(int(word), SI32)


def _f32(word: str) -> Attribute:
    return FloatAttr(float(word), f32)


def guessed(word: str) -> Attribute:
    """Returns an attribute of the kind that a string looks like: a flag, an integer, a number or text."""
    if word.lower() in ("true", "false"):
        return _flag(word)
    if re.fullmatch(r"-?\d+", word):
        return IntegerAttr(int(word), i64)
    if re.fullmatch(r"-?\d*\.?\d+(e-?\d+)?", word.lower()):
        return _f32(word)
    return StringAttr(word)


def _i64s(word: str) -> Attribute:
    """Integers as JSON writes them."""
    return DenseArrayBase.from_list(i64, json.loads(word))


@dataclass(frozen=True)
class _Call:
    """How a target's attributes are written. An attribute without a row is written as it looks."""

    name: str
    kinds: dict[str, Write] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    operands: tuple[str, ...] = ()
    """The operands of the ttir op; `has_NAME` of the call says whether one that ends in `?` is there."""
    segmented: bool = True
    """Whether the op counts its operands in `operandSegmentSizes`."""


OUT = "="
"""The operand that an op of ttir writes its result to: an empty tensor, which no call has."""
_ATTENTION = {"is_causal": _flag, "scale": _f32, "sliding_window_size": _u32}
CALLS = {
    "tt.update_cache": _Call("update_cache", {"batch_offset": _i32}),
    "tt.fill_cache": _Call("fill_cache", {"batch_offset": _i32}),
    "tt.paged_update_cache": _Call("paged_update_cache", {"share_cache": _flag}, {"share_cache": "False"}),
    "tt.scaled_dot_product_attention": _Call(
        "scaled_dot_product_attention",
        _ATTENTION,
        operands=("query", "key", "value", "attention_mask?", "attention_sink?"),
    ),
    "tt.scaled_dot_product_attention_decode": _Call(
        "scaled_dot_product_attention_decode",
        _ATTENTION,
        operands=("query", "key", "value", "cur_pos_tensor", "attention_mask?", "attention_sink?"),
    ),
    "tt.paged_scaled_dot_product_attention_decode": _Call(
        "paged_scaled_dot_product_attention_decode",
        _ATTENTION,
        operands=("query", "key", "value", "page_table", OUT, "attention_mask?", "cur_pos_tensor?", "attention_sink?"),
    ),
    "tt.chunked_scaled_dot_product_attention": _Call(
        "chunked_scaled_dot_product_attention",
        _ATTENTION,
        operands=("query", "key", "value", "page_table", "chunk_start_idx", OUT),
        segmented=False,
    ),
    "tt.paged_flash_mla_decode": _Call(
        "paged_flash_multi_latent_attention_decode",
        _ATTENTION | {"head_dim_v": _u32},
        operands=("query", "key", "value?", "page_table", "attention_mask?", "cur_pos_tensor?", "attention_sink?"),
    ),
    "tt.sampling": _Call("sampling", {"seed": _u32}),
    "tt.mesh_partition": _Call("mesh_partition", {"cluster_axis": _u32, "dim": _s32}),
    "tt.mesh_shard": _Call(
        "mesh_shard",
        {
            "shard_dims": _i64s,
            "shard_shape": _i64s,
            "shard_direction": ShardDirectionAttr.of,
            "shard_type": ShardTypeAttr.of,
        },
    ),
}
"""Target -> its op; other `tt.NAME` are the op of that name, if the table knows it."""
ELEMENTWISE = {
    "mhlo.erf": "erf",
    "mhlo.asinh": "asinh",
    "mhlo.acosh": "acosh",
    "mhlo.atanh": "atanh",
    "mhlo.acos": "acos",
    "mhlo.asin": "asin",
    "mhlo.sinh": "sinh",
    "mhlo.cosh": "cosh",
    "mhlo.tan": "tan",
}


@named("stablehlo.custom_call")
def custom_call(e: Emit) -> Sequence[SSAValue] | None:
    """Emits the op that a target names; None for the targets of the registry."""
    target = target_of(e.op)
    if target in ELEMENTWISE:
        return [e.emit(ELEMENTWISE[target], e.operands, e.result_type)]
    if target == "mhlo.topk":
        return _topk(e)
    if target == "tt.tt_lang_op":
        return _tt_lang(e)
    if target.startswith("tenstorrent.") and (attributes := _dictionary(e, "tt.composite_attributes")) is not None:
        return as_op(e, target.removeprefix("tenstorrent."), attributes)
    if find(target) is not None or not target.startswith("tt."):
        return None
    call = CALLS.get(target) or _Call(target.removeprefix("tt."))
    if e.functions is None or not e.functions.named:  # only tt-mlir's words have an operand for the result
        call = replace(call, operands=tuple(name for name in call.operands if name != OUT))
    if TABLE.named("ttir", call.name) is None:
        raise e.refuse(f"expected a custom call of an op of ttir, got {target}")
    words = call.defaults | frontend_attributes(e)
    present = {
        key.removeprefix("has_"): word.lower() == "true" for key, word in words.items() if key.startswith("has_")
    }
    segments = _segments(e, call, present)
    kept = {key: word for key, word in words.items() if not key.startswith("has_")}
    properties = {key: call.kinds.get(key, guessed)(word) for key, word in kept.items()}
    operands = list(e.operands)
    if OUT in call.operands:
        at = sum((segments or ())[: call.operands.index(OUT)])
        operands.insert(at, e.emit("empty", [], e.result_type))
    if segments is not None and call.segmented:
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, segments)
    return e.foreign(call.name, operands, e.result_types, **properties)


def frontend_attributes(e: Emit) -> dict[str, str]:
    """Returns the strings of `mhlo.frontend_attributes`, by name."""
    entries = _dictionary(e, "mhlo.frontend_attributes") or {}
    return {key: value.data if isinstance(value, StringAttr) else str(value) for key, value in entries.items()}


def _dictionary(e: Emit, name: str) -> dict[str, Attribute] | None:
    """Returns an attribute that is a dictionary; None if there is none of that name."""
    attribute = e.attr(name)
    if isinstance(attribute, SpecAttr):
        attribute = text.parse_attribute(attribute.text.data)
    return dict(attribute.data) if isinstance(attribute, DictionaryAttr) else None


def _segments(e: Emit, call: _Call, present: dict[str, bool]) -> list[int] | None:
    """Returns 1 or 0 for each operand of the op; what no attribute speaks of is there if operands are left for it."""
    if not call.operands:
        return None
    required = sum(not name.endswith(("?", OUT)) for name in call.operands)
    optional = [name[:-1] for name in call.operands if name.endswith("?")]
    named = {name: present.get(name, present.get(name.replace("_tensor", ""))) for name in optional}
    spare = len(e.operands) - required - sum(there is True for there in named.values())
    segments = []
    for name in call.operands:
        if not name.endswith("?"):
            segments.append(1)
            continue
        there = named[name[:-1]]
        segments.append(int(spare > 0 if there is None else there))
        spare -= there is None and spare > 0
    expected = sum(segments) - call.operands.count(OUT)
    if expected != len(e.operands):
        raise e.refuse(f"expected {expected} operands by its attributes, got {len(e.operands)}", "error")
    return segments


def _topk(e: Emit) -> Sequence[SSAValue] | None:
    """torch-xla writes its attributes as JSON, JAX in a dictionary."""
    config = e.attr("backend_config")
    try:
        words = json.loads(config.data) if isinstance(config, StringAttr) else {}
    except json.JSONDecodeError:
        words = {}
    attributes = _dictionary(e, "mhlo.attributes") or {}
    words = {key: attr.value.data for key, attr in attributes.items() if isinstance(attr, IntegerAttr)} | words
    if "k" not in words:
        return None
    return e.emit_all(
        "topk",
        e.operands,
        e.result_types,
        k=words["k"],
        dim=words.get("dim", -1),
        largest=bool(words.get("largest", True)),
        sorted=bool(words.get("sorted", False)),
    )


def _tt_lang(e: Emit) -> Sequence[SSAValue]:
    """The op takes the tensors that it fills as operands: an empty one for each result."""
    words = frontend_attributes(e)
    roles = words.get("arg_roles", "").split(",")
    if [role for role in roles if role == "out"] != ["out"] * len(e.op.results):
        raise e.refuse(f"expected arg_roles with an out for each of {len(e.op.results)} results, got {words}", "error")
    outs = [e.emit("empty", [], kind) for kind in e.result_types]
    properties = {key: StringAttr(word) for key, word in words.items() if word or key != "shard_spec"}
    return e.foreign("tt_lang_op", [*e.operands, *outs], e.result_types, **properties)
