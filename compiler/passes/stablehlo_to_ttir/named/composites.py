"""Composites `tenstorrent.*` as tt-mlir's ops, whether or not a kernel here computes these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from opscope.compiler.dialects.from_row import element_of
from opscope.compiler.dialects.ttcore import MaskTypeAttr
from opscope.compiler.ops.codec import UI32
from opscope.compiler.ops.row import TABLE
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit
from opscope.compiler.passes.stablehlo_to_ttir.named.known import splat

Attrs = dict[str, Attribute]
Write = Callable[[Emit, Attrs], "Sequence[SSAValue] | None"]
MASKS = ("none", "causal", "arbitrary")
EPSILON = 1e-5
"""PyTorch's default of its norms over a batch, a layer or a group."""
RMS_EPSILON = 1.1920928955078125e-07
"""PyTorch's default of `rms_norm`: the distance from 1 to the next float32."""


def written(composite: Operation) -> list[SSAValue] | None:
    """Puts the ops of a composite before it and returns what replaces its results; None if tt-mlir has none."""
    called = composite.attributes["name"]
    name = called.data if isinstance(called, StringAttr) else ""
    if not name.startswith("tenstorrent."):
        return None
    name = name.removeprefix("tenstorrent.")
    attributes = composite.attributes.get("composite_attributes")
    attrs: Attrs = dict(attributes.data) if isinstance(attributes, DictionaryAttr) else {}
    made = Block()
    e = Emit(composite, list(composite.operands), made)
    results = as_op(e, name, attrs)
    if results is None:
        for op in list(made.ops)[::-1]:
            made.erase_op(op)
        return None
    block = composite.parent
    assert block is not None
    ops = list(made.ops)
    for op in ops:
        made.detach_op(op)
    block.insert_ops_before(ops, composite)
    return list(results)


def as_op(e: Emit, name: str, attrs: Attrs) -> Sequence[SSAValue] | None:
    """Emits the op of a composite, which is called `tenstorrent.NAME`; None if tt-mlir has none."""
    write = WRITERS.get(name)
    if write is None and TABLE.named("ttir", name) is not None:
        write = _plain(name)
    return write(e, attrs) if write is not None else None


def _number(attr: Any) -> Any:
    return attr.value.data if attr is not None else None


def _as_i32(attr: Attribute) -> Attribute:
    return IntegerAttr(int(_number(attr)), i32) if isinstance(attr, IntegerAttr) and attr.type == i64 else attr


def _plain(name: str) -> Write:
    """The op of the composite's name with its attributes, of which 64-bit integers become 32-bit ones."""

    def write(e: Emit, attrs: Attrs) -> list[SSAValue]:
        return e.foreign(name, e.operands, e.result_types, **{key: _as_i32(attr) for key, attr in attrs.items()})

    return write


def _gather(e: Emit, attrs: Attrs) -> list[SSAValue] | None:
    """Indices are unsigned."""
    if "dim" not in attrs:
        return None
    value, index = e.operands
    if element_of(index) not in ("ui32", "ui16"):
        index = e.typecast(index, UI32)
    dim = _number(attrs["dim"])
    if len(shape_of(value)) > 1:
        return [e.emit("gather", [value, index], e.result_type, dim=dim)]
    # tt-mlir's kernel takes two dims at least.
    value, index = (e.reshape(v, [1, *shape_of(v)]) for v in (value, index))
    result = e.emit("gather", [value, index], e.like(value, shape_of(index)), dim=dim + 1 if dim >= 0 else dim)
    return [e.reshape(result, e.result_shape)]


def _topk(e: Emit, attrs: Attrs) -> list[SSAValue] | None:
    """Values and indices; a composite may have only one of them."""
    called: Any = e.op.attributes.get("name", e.op.attributes.get("call_target_name"))
    (value,) = e.operands
    kinds = list(e.result_types)
    if called.data.endswith("_values"):
        kinds.append(TensorType(i32, kinds[0].get_shape()))
    elif called.data.endswith("_indices"):
        kinds.insert(0, e.like(value, kinds[0].get_shape()))
    if len(kinds) != 2 or "k" not in attrs:
        return None
    values, indices = e.emit_all(
        "topk",
        [value],
        kinds,
        k=_number(attrs["k"]),
        dim=_number(attrs.get("dim", IntegerAttr(-1, i64))),
        largest=bool(_number(attrs.get("largest", BoolAttr.from_bool(True)))),
        sorted=bool(_number(attrs.get("sorted", BoolAttr.from_bool(True)))),
    )
    if len(e.op.results) == 2:
        return [values, indices]
    return [values] if called.data.endswith("_values") else [indices]


def _attention(e: Emit, attrs: Attrs) -> list[SSAValue] | None:
    """Three or four dims; a mask of three is padded on the left, or like the others if these have three."""
    query, key, value, *mask = e.operands
    rank = len(shape_of(query))
    if rank not in (3, 4) or len(mask) > 1 or attrs.keys() - {"is_causal", "scale", "enable_gqa"}:
        return None

    def four(x: SSAValue, at: int) -> SSAValue:
        shape = shape_of(x)
        return x if len(shape) == 4 else e.reshape(x, [*shape[:at], 1, *shape[at:]])

    query, key, value = (four(x, 1) for x in (query, key, value))
    mask = [four(x, 1 if rank == 3 else 0) for x in mask]
    causal = attrs.get("is_causal", BoolAttr.from_bool(False))
    scale = attrs.get("scale")
    properties: Attrs = {"is_causal": BoolAttr.from_bool(bool(_number(causal)))}
    if scale is not None:
        properties["scale"] = FloatAttr(float(_number(scale)), f32)
    properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [1, 1, 1, len(mask), 0])
    shape = (*shape_of(query)[:-1], shape_of(value)[-1])
    (result,) = e.foreign(
        "scaled_dot_product_attention", [query, key, value, *mask], [e.like(query, shape)], **properties
    )
    return [e.reshape(result, e.result_shape)]


def _norm(name: str) -> Write:
    def write(e: Emit, attrs: Attrs) -> list[SSAValue] | None:
        """Weight, bias and residual are there as the composite says, in this order."""
        if "normalized_shape" not in attrs:
            return None
        residual = bool(_number(attrs.get("has_residual")))
        rest = len(e.operands) - 1 - residual
        if rest not in (0, 1, 2):
            return None
        normalized: Any = attrs["normalized_shape"]
        sizes = (
            [int(v) for v in normalized.get_values()]
            if hasattr(normalized, "get_values")
            else [_number(v) for v in normalized.data]
        )
        default = RMS_EPSILON if name == "rms_norm" else EPSILON
        epsilon = _number(attrs["epsilon"]) if "epsilon" in attrs else default
        segments = [1, int(rest > 0), int(rest > 1), *([1] if residual else [])]
        return e.foreign(
            name,
            e.operands,
            e.result_types,
            normalized_shape=DenseArrayBase.from_list(i64, sizes),
            epsilon=FloatAttr(float(epsilon), f32),
            operandSegmentSizes=DenseArrayBase.from_list(i32, segments),
        )

    return write


def _group_norm(e: Emit, attrs: Attrs) -> list[SSAValue] | None:
    """Three dims become four, as tt-mlir's op takes them: with one of size 1 after the others."""
    if "num_groups" not in attrs or len(e.operands) not in (1, 3):
        return None
    epsilon = _number(attrs["epsilon"]) if "epsilon" in attrs else EPSILON
    channel = _number(attrs["channel_dim"]) if "channel_dim" in attrs else None
    value, *weights = e.operands
    shape = shape_of(value)
    flat = len(shape) == 3 and channel is not None and channel >= 0
    value = e.reshape(value, [*shape, 1]) if flat else value
    result = e.emit(
        "group_norm",
        [value, *weights],
        e.like(value, shape_of(value)),
        num_groups=_number(attrs["num_groups"]),
        epsilon=float(epsilon),
        channel_dim=channel,
    )
    return [e.reshape(result, e.result_shape)]


def _adamw(e: Emit, attrs: Attrs) -> list[SSAValue]:
    rounding = attrs.get("stochastic_rounding", BoolAttr.from_bool(False))
    kept = {key: FloatAttr(float(_number(a)), f32) if isinstance(a, FloatAttr) else a for key, a in attrs.items()}
    return e.foreign("adamw", e.operands, e.result_types, **kept | {"stochastic_rounding": rounding})


def _uniform(e: Emit, attrs: Attrs) -> list[SSAValue] | None:
    """Between known numbers, and not by the key that the composite has."""
    low, high = (splat(value) for value in e.op.operands[1:3])
    if low is None or high is None or isinstance(e.result_type.element_type, IntegerType):
        return None
    kind = e.result_type
    return [e.emit("rand", [], kind, size=e.result_shape, low=low, high=high, seed=0, dtype=kind.element_type)]


def _trained(name: str) -> Write:
    def write(e: Emit, attrs: Attrs) -> list[SSAValue] | None:
        """The mask's kind is a number in the composite; the forward op says whether it keeps what the other needs."""
        mask = _number(attrs["mask_type"]) if "mask_type" in attrs else 0
        if mask not in range(len(MASKS)):
            return None
        kept = attrs | {"mask_type": MaskTypeAttr.of(MASKS[mask])}
        if name == "sdpa_fw":
            kept["return_intermediates"] = BoolAttr.from_bool(len(e.op.results) > 1)
        return e.foreign(name, e.operands, e.result_types, **kept)

    return write


WRITERS: dict[str, Write] = {
    "gather": _gather,
    "gather_dim": _gather,
    "topk": _topk,
    "topk_values": _topk,
    "topk_indices": _topk,
    "scaled_dot_product_attention": _attention,
    "rms_norm": _norm("rms_norm"),
    "layer_norm": _norm("layer_norm"),
    "group_norm": _group_norm,
    "adamw": _adamw,
    "uniform": _uniform,
    "sdpa_fw": _trained("sdpa_fw"),
    "sdpa_bw": _trained("sdpa_bw"),
}
"""Name of a composite -> what writes it; others are the op of that name, if the table knows it."""
