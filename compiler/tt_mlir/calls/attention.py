"""Ops that tt-mlir's fusions emit for attention: rotary positions, heads, attention itself, and caches."""

from __future__ import annotations

from dataclasses import replace

from opscope.compiler.target.formats import TILE
from opscope.compiler.target.fused_params import AttentionParams, CacheParams
from opscope.compiler.target.program import (
    BroadcastParams,
    EltwiseParams,
    PadParams,
    PermuteParams,
    ReshapeParams,
    SliceParams,
)
from opscope.compiler.tt_mlir.calls.call import Emit, emits
from opscope.compiler.tt_mlir.calls.products import of_products

Shape = tuple[int, ...]


def _sliced(emit: Emit, tensor: int, axis: int, begin: int, end: int) -> int:
    """A part of a tensor along one dim."""
    shape = emit.desc(tensor).shape
    axis %= len(shape)
    if (begin, end) == (0, shape[axis]):
        return tensor
    begins = tuple(begin if at == axis else 0 for at in range(len(shape)))
    ends = tuple(end if at == axis else size for at, size in enumerate(shape))
    made = tuple(high - low for low, high in zip(begins, ends, strict=True))
    part = emit.tensor(replace(emit.desc(tensor), shape=made))
    emit.call("slice_static", [tensor], [part], SliceParams(begins, ends, (1,) * len(shape)))
    return part


def _reshaped(emit: Emit, tensor: int, shape: Shape) -> int:
    made = emit.tensor(replace(emit.desc(tensor), shape=shape))
    emit.call("reshape", [tensor], [made], ReshapeParams(shape))
    return made


def _permuted(emit: Emit, tensor: int, order: Shape, result: int | None = None) -> int:
    desc = emit.desc(tensor)
    made = emit.tensor(replace(desc, shape=tuple(desc.shape[d] for d in order))) if result is None else result
    emit.call("permute", [tensor], [made], PermuteParams(order))
    return made


def _onto(emit: Emit, tensor: int, result: int) -> None:
    emit.call("reshape", [tensor], [result], ReshapeParams(emit.desc(result).shape))


def _in_places(emit: Emit, count: int) -> list[int | None]:
    """The operands in their places; None for one that is left out, by `operandSegmentSizes` if there is that."""
    sizes = tuple(emit.attributes.get("operandSegmentSizes", (1,) * len(emit.inputs)))
    left = list(emit.inputs)
    emit.only(
        sum(sizes) == len(left) and len(sizes) <= count, f"expected {len(left)} operands to be counted, got {sizes}"
    )
    places: list[int | None] = [left.pop(0) if size else None for size in sizes]
    return [*places, *([None] * (count - len(places)))]


def _with_positions(emit: Emit, tensor: int, positions: int) -> int:
    """A tensor of at least so many positions: what fills its last tile up is zeros."""
    desc = emit.desc(tensor)
    more = positions - desc.shape[-2]
    if more <= 0:
        return tensor
    none = (0,) * len(desc.shape)
    filled = emit.tensor(replace(desc, shape=(*desc.shape[:-2], positions, desc.shape[-1])))
    emit.call("pad", [tensor], [filled], PadParams(none, (*none[:-2], more, 0), none, 0.0))
    return filled


@emits("rotary_embedding")
def rotary_embedding(emit: Emit) -> None:
    """Row s of the tables turns position s of (batch, heads, positions, width): tt-metal's kernel broadcasts none.

    It compares sizes in whole tiles, so that tables of fewer positions are read into what fills their last tile up. The
    result may be as long as its tiles.
    """
    (x, *tables), (result,) = emit.inputs, emit.results
    token = emit.attributes.get("token_index")
    given, (positions, width) = emit.desc(x).shape[-2], emit.desc(result).shape[-2:]
    emit.only(positions in (given, -(-given // TILE) * TILE), f"expected {given} positions in tiles, got {positions}")
    x = _with_positions(emit, x, positions)
    angles = []
    for table in tables:
        shape = emit.desc(table).shape
        rows = shape[-2]
        fits = all(size == 1 for size in shape[:-2]) and shape[-1] == width
        emit.only(fits, f"expected tables of (1, 1, positions, {width}), got {shape}")
        if token is not None:
            emit.only(token < rows, f"expected a token before {rows}, got {token}")
            angles.append(_sliced(emit, table, -2, token, token + 1))
            continue
        emit.only(-(-rows // TILE) >= -(-positions // TILE), f"expected tables of {positions} positions, got {rows}")
        angles.append(_sliced(emit, _with_positions(emit, table, positions), -2, 0, positions))
    emit.call("rotary_embedding", [x, *angles], emit.results, EltwiseParams(), emit.numerics())


@emits("nlp_create_qkv_heads_decode")
def qkv_heads_decode(emit: Emit) -> None:
    """(1, 1, users, all heads) as queries, keys and values, each (1, users, heads, width)."""
    attributes = emit.attributes
    places = _in_places(emit, 2)
    emit.only(places[1] is None and attributes.get("slice_size") is None, "expected all users, got a part of them")
    attributes.skip("overlap_qk_coregrid")  # on which cores the results lie
    heads = attributes["num_heads"]
    keys = attributes.get("num_kv_heads") or heads
    x = emit.inputs[0]
    width = emit.desc(x).shape[-1] // (heads + 2 * keys)
    start = 0
    for count, result in zip((heads, keys, keys), emit.results, strict=True):
        part = _sliced(emit, x, -1, start, start + count * width)
        _onto(emit, part, result)
        start += count * width


@emits("split_query_key_value_and_split_heads")
def split_heads(emit: Emit) -> None:
    """(batch, positions, all heads) as queries, keys and values, each (batch, heads, positions, width)."""
    attributes = emit.attributes
    x, pairs = _in_places(emit, 2)
    assert x is not None
    heads = attributes["num_heads"]
    keys = attributes.get("num_kv_heads") or heads
    turned = attributes["transpose_key"]
    batch, positions, size = emit.desc(x).shape
    width = size // (heads if pairs is not None else heads + 2 * keys)
    source, start = x, 0
    for number, (count, result) in enumerate(zip((heads, keys, keys), emit.results, strict=True)):
        if number == 1 and pairs is not None:
            source, start = pairs, 0
        part = _sliced(emit, source, -1, start, start + count * width)
        start += count * width
        cut = _reshaped(emit, part, (batch, positions, count, width))
        _permuted(emit, cut, (0, 2, 3, 1) if number == 1 and turned else (0, 2, 1, 3), result)


@emits("concatenate_heads", "nlp_concat_heads")
def concatenate_heads(emit: Emit) -> None:
    """(batch, heads, positions, width) as (batch, positions, heads width), perhaps with a dim of size 1."""
    (x,), (result,) = emit.inputs, emit.results
    _onto(emit, _permuted(emit, x, (0, 2, 1, 3)), result)


@emits("nlp_concat_heads_decode")
def concat_heads_decode(emit: Emit) -> None:
    """(1, users, heads, width) as (1, 1, users, heads width); heads that only fill a tile up are left out."""
    (x,), (result,) = emit.inputs, emit.results
    _onto(emit, _sliced(emit, x, 2, 0, emit.attributes["num_heads"]), result)


def _attention(emit: Emit, count: int, causal: bool) -> tuple[list[int | None], AttentionParams]:
    """The operands, of which the last is a sink, and how they are attended to."""
    attributes = emit.attributes
    places = _in_places(emit, count)
    attributes.skip("program_config")  # in which parts
    query = places[0]
    assert query is not None
    scale = attributes.get("scale")
    scale = emit.desc(query).shape[-1] ** -0.5 if scale is None else scale
    window = attributes.get("sliding_window_size")
    emit.only(window is None or window > 0, f"expected a window of some positions, got {window}")
    return places, AttentionParams(scale, attributes.get("is_causal", causal), window or 0, places[-1] is not None)


@emits("scaled_dot_product_attention")
def attention(emit: Emit) -> None:
    """Query, key and value of (batch, heads, positions, width), and perhaps a mask."""
    places, params = _attention(emit, 5, causal=True)
    emit.only(not (params.is_causal and places[3] is not None), "expected a mask or causal attention, got both")
    inputs = [each for each in places if each is not None]
    emit.call("scaled_dot_product_attention", inputs, emit.results, params, of_products(emit))


@emits("scaled_dot_product_attention_decode", "paged_scaled_dot_product_attention_decode")
def attention_decode(emit: Emit) -> None:
    """One position of each user, (1, users, heads, width), over its cache, up to its own place or by a mask."""
    kernel = emit.name.removeprefix("ttnn.")
    own = 4 if kernel.startswith("paged") else 3
    places, params = _attention(emit, own + 3, causal=True)
    mask, last = places[own], places[own + 1]
    if params.is_causal:
        emit.only(last is not None and mask is None, "expected positions and no mask, got others")
    else:
        emit.only(own == 3 or mask is not None, "expected a mask beside pages, got none")
        emit.only(not params.window, "expected a mask without a window, got both")
    rest = last if params.is_causal else mask
    inputs = [each for each in (*places[:own], rest, places[-1]) if each is not None]
    emit.call(kernel, inputs, emit.results, params, of_products(emit))


@emits("update_cache", "fill_cache", "paged_update_cache", "paged_fill_cache")
def cache(emit: Emit) -> None:
    """Writes into its first operand, which is another tensor from here on."""
    kernel = emit.name.removeprefix("ttnn.")
    emit.only(not emit.attributes.get("share_cache", False), "expected a cache of one's own, got a shared one")
    emit.only(kernel != "paged_update_cache" or len(emit.inputs) == 4, "expected a page table, got none")
    inputs = list(emit.inputs)
    if kernel == "update_cache":  # users stand in the third dim of the new values
        users = emit.desc(inputs[1]).shape[2]
        inputs[1] = _permuted(emit, inputs[1], (2, 1, 0, 3)) if users > 1 else inputs[1]
    made = emit.tensor(emit.desc(inputs[0]))
    emit.call(kernel, inputs, [made], CacheParams(emit.attributes.get("batch_offset", 0)))
    emit.written[emit.inputs[0]] = made


@emits("repeat_interleave")
def repeat_interleave(emit: Emit) -> None:
    """Each element several times along a dim."""
    (x,), (result,) = emit.inputs, emit.results
    shape, times = emit.desc(x).shape, emit.attributes["repeats"]
    axis = emit.attributes["dim"] % len(shape) + 1
    _spread(emit, x, {axis: times}, result)


@emits("upsample")
def upsample(emit: Emit) -> None:
    """Each pixel of (batch, height, width, channels) several times in both directions."""
    (x,), (result,) = emit.inputs, emit.results
    mode, factor = emit.attributes.get("mode", "nearest"), emit.attributes["scale_factor"]
    emit.only(mode == "nearest", f"expected the nearest pixel, got {mode}")
    high, wide = (factor, factor) if isinstance(factor, int) else factor
    _spread(emit, x, {2: high, 3: wide}, result)


def _spread(emit: Emit, x: int, times: dict[int, int], result: int) -> None:
    """Repeats elements: after each of these dims a new one of this size is folded in."""
    shape = emit.desc(x).shape
    cut: list[int] = []
    wide: list[int] = []
    for at, size in enumerate(shape, 1):
        cut += [size, 1] if at in times else [size]
        wide += [size, times[at]] if at in times else [size]
    made = emit.tensor(replace(emit.desc(x), shape=tuple(wide)))
    emit.call("broadcast", [_reshaped(emit, x, tuple(cut))], [made], BroadcastParams(tuple(wide)))
    _onto(emit, made, result)
