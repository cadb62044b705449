"""Kernels of language models' inference: writes into caches, attention over them, rotary positions, running sums.

Caches are written in place where nothing reads what they held (`target/in_place.py`), as tt-metal does; as functions of
whole tensors, the kernels return the cache with what was written.
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.formats import FORMATS, TILE
from opscope.compiler.target.fused_params import AttentionParams, CacheParams
from opscope.compiler.target.program import EltwiseParams, ReduceParams
from opscope.simulator.kernels.eltwise import operands
from opscope.simulator.kernels.matmul import product_of
from opscope.simulator.kernels.reduce import gapool_operand
from opscope.simulator.kernels.registry import Call, Images, kernel, params_of

CHUNK = 128
"""Positions of a cache that a core holds at a time while it attends to them (tt-metal: k_chunk_size)."""


def _row_bytes(call: Call) -> int:
    """A row of tiles of the cache, which is untilised, written to and tilised again, and one of the input."""
    cache = call.inputs[0]
    return 3 * -(-cache.shape[-1] // TILE) * FORMATS[cache.data_format].tile_bytes + 4096


@kernel("update_cache", CacheParams, unit="move", arity=3, l1_bytes=_row_bytes)
def update_cache(images: Images, call: Call) -> np.ndarray:
    """Writes one position of each head, at one index for all batches; nothing if there is no such position."""
    cache, new, index = images
    result, first = cache.copy(), params_of(call, CacheParams).batch_offset
    place = int(np.asarray(index, np.int64).reshape(-1)[0])
    if 0 <= place < cache.shape[2]:
        result[first : first + new.shape[0], :, place] = new[:, :, 0]
    return result


@kernel("fill_cache", CacheParams, unit="move", arity=2, l1_bytes=_row_bytes)
def fill_cache(images: Images, call: Call) -> np.ndarray:
    """Writes the first positions of each head."""
    cache, new = images
    result, first = cache.copy(), params_of(call, CacheParams).batch_offset
    result[first : first + new.shape[0], :, : new.shape[2]] = new
    return result


@kernel("paged_update_cache", CacheParams, unit="move", arity=4, l1_bytes=_row_bytes)
def paged_update_cache(images: Images, call: Call) -> np.ndarray:
    """Writes one position of each user into the block that the page table names; a user at a negative index is left
    out, as are blocks that do not exist.
    """
    cache, new, index, table = images
    result = cache.copy()
    blocks, heads, size = cache.shape[:3]
    for user, place in enumerate(np.asarray(index, np.int64).reshape(-1)):
        if 0 <= place < table.shape[1] * size and 0 <= (block := int(table[user, place // size])) < blocks:
            result[block, :, place % size] = new[0, user, :heads]
    return result


@kernel("paged_fill_cache", CacheParams, unit="move", arity=(3, 4), l1_bytes=_row_bytes)
def paged_fill_cache(images: Images, call: Call) -> np.ndarray:
    """Writes the first positions of users into the blocks that the page table names: of the users that a fourth input
    lists, else of the first ones.
    """
    cache, new, table = images[:3]
    users = np.asarray(images[3], np.int64).reshape(-1) if len(images) > 3 else np.arange(new.shape[0])
    result, size = cache.copy(), cache.shape[2]
    for row, user in enumerate(users[: new.shape[0]]):
        for start in range(0, new.shape[2] if 0 <= user < table.shape[0] else 0, size):
            block, part = int(table[user, start // size]), new[row, :, start : start + size]
            if 0 <= block < cache.shape[0]:
                result[block, :, : part.shape[1]] = part
    return result


def attend(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    mask: np.ndarray | None,
    call: Call,
    sink: np.ndarray | None = None,
) -> np.ndarray:
    """softmax(query key^T scale + mask) value for (batch, heads, positions, width), heads sharing keys in order.

    A mask broadcasts to (batch, heads, positions of the query, positions of the keys); a sink has a number for each
    head of the query.
    """
    shared = query.shape[1] // key.shape[1] if query.ndim == 4 else 1
    if shared > 1:
        key, value = (np.repeat(x, shared, axis=1) for x in (key, value))
    scale = np.float32(params_of(call, AttentionParams).scale)
    scores = product_of(query, np.swapaxes(key, -1, -2), call) * scale
    if mask is not None:
        scores = scores + mask
    one_more = np.float32(-np.inf) if sink is None else sink.reshape(-1, 1, 1) * scale
    largest = np.maximum(np.max(scores, axis=-1, keepdims=True, initial=-np.inf), one_more)
    raised = np.exp(scores - largest)
    # Divided last, so that numerator and denominator lose the same bits of an exponential.
    total = np.sum(gapool_operand(raised, call.numerics.fidelity), axis=-1, keepdims=True, dtype=np.float32)
    if sink is not None:
        total = total + gapool_operand(np.exp(one_more - largest), call.numerics.fidelity)
    return product_of(raised, value, call) / total


def _seen(rows: int, columns: int, params: AttentionParams) -> np.ndarray | None:
    """What is added to the scores of those keys that a position does not see; None if it sees all."""
    if not (params.is_causal or params.window):
        return None
    behind = np.arange(rows)[:, None] + (columns - rows) - np.arange(columns)
    seen = np.ones(behind.shape, bool)
    if params.is_causal:
        seen = behind >= 0
    if params.window:
        seen &= behind < params.window if params.is_causal else np.abs(behind) <= params.window // 2
    return np.where(seen, np.float32(0), np.float32(-np.inf))


def _with_sink(images: Images, call: Call) -> tuple[Images, np.ndarray | None]:
    """The inputs without a sink, and that; each head's is the first of its row."""
    if not params_of(call, AttentionParams).has_sink:
        return images, None
    heads = images[-1].reshape(-1, images[-1].shape[-1])[:, 0]
    return images[:-1], heads


@kernel("scaled_dot_product_attention", AttentionParams, unit="matrix", arity=(3, 5))
def scaled_dot_product_attention(images: Images, call: Call) -> np.ndarray:
    """Attention of a whole sequence, per head; the scores never leave the cores."""
    images, sink = _with_sink(images, call)
    query, key, value = images[:3]
    mask = images[3] if len(images) > 3 else None
    seen = _seen(query.shape[-2], key.shape[-2], params_of(call, AttentionParams))
    if seen is not None:
        mask = seen if mask is None else mask + seen
    return attend(query, key, value, mask, call, sink)


def _chunk_bytes(call: Call) -> int:
    """The heads that share a key, their scores and results, and chunks of keys and values, these double-buffered."""
    query, key, value = call.inputs[:3]
    tile = FORMATS[query.data_format].tile_bytes
    rows = -(-max(query.shape[2] // key.shape[1], 1) // TILE)
    wide, out, chunk = (-(-n // TILE) for n in (key.shape[3], value.shape[3], min(CHUNK, max(key.shape[2], 1))))
    return tile * (rows * (wide + 2 * out + 2 * chunk) + 2 * chunk * (wide + out))


def _of_one_position(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, rest: Images, call: Call, sink: np.ndarray | None
) -> np.ndarray:
    """Attention of a query (1, users, heads, width); causal ones have positions in `rest`, others perhaps a mask."""
    turned, params = np.moveaxis(query, 0, 2), params_of(call, AttentionParams)
    if sink is not None:
        sink = sink[: turned.shape[1]]  # its heads fill whole tiles
    if not params.is_causal:
        # (users or 1, 1, heads or 1, positions) -> (users, heads, 1, positions)
        mask = np.swapaxes(rest[0], 1, 2) if rest else None
        return np.moveaxis(attend(turned, key, value, mask, call, sink), 2, 0)
    last = np.asarray(rest[0], np.int64).reshape(-1, 1, 1, 1)
    # A user whose position is negative is idle: its result is 0.
    places = np.arange(key.shape[2])
    seen = (places <= last) | (last < 0)
    if params.window:
        seen &= places > last - params.window
    result = attend(turned, key, value, np.where(seen, np.float32(0), np.float32(-np.inf)), call, sink)
    return np.moveaxis(np.where(last < 0, np.float32(0), result), 2, 0)


@kernel("scaled_dot_product_attention_decode", AttentionParams, unit="matrix", arity=(3, 6), l1_bytes=_chunk_bytes)
def scaled_dot_product_attention_decode(images: Images, call: Call) -> np.ndarray:
    """Attention of one position of each user over its cache, up to the position that input 3 says if it is causal."""
    images, sink = _with_sink(images, call)
    query, key, value, *rest = images
    if not params_of(call, AttentionParams).is_causal:
        rest = [image for image in rest if image.dtype.kind == "f"]  # positions say nothing beside a mask
    return _of_one_position(query, key, value, rest, call, sink)


@kernel(
    "paged_scaled_dot_product_attention_decode", AttentionParams, unit="matrix", arity=(5, 6), l1_bytes=_chunk_bytes
)
def paged_scaled_dot_product_attention_decode(images: Images, call: Call) -> np.ndarray:
    """The same over blocks that a page table names: input 4 is the positions if it is causal, else the mask."""
    images, sink = _with_sink(images, call)
    query, key, value, table, last = images
    pages = np.clip(table.astype(np.int64), 0, key.shape[0] - 1)

    def joined(cache: np.ndarray) -> np.ndarray:
        users, blocks = pages.shape
        gathered = cache[pages].swapaxes(1, 2)
        return gathered.reshape(users, cache.shape[1], blocks * cache.shape[2], cache.shape[3])

    return _of_one_position(query, joined(key), joined(value), [last], call, sink)


@kernel("rotary_embedding", EltwiseParams, arity=3, max_ulp=2, cycles=("multiply", "multiply", "add"))
def rotary_embedding(images: Images, call: Call) -> np.ndarray:
    """x cos + (its halves turned by a quarter) sin (Su et al. 2021), halves paired as Llama does."""
    x, cosine, sine = operands(images, call)
    first, second = np.split(x, 2, axis=-1)
    return x * cosine + np.concatenate([-second, first], axis=-1) * sine


def _column_bytes(call: Call) -> int:
    """Tiles of the operand and result, and the running value, which stays in float32."""
    sizes = (FORMATS[d.data_format].tile_bytes for d in (*call.inputs, *call.outputs))
    return 2 * sum(sizes) + FORMATS["Float32"].tile_bytes


def _running(ufunc: np.ufunc, images: Images, call: Call) -> np.ndarray:
    """Running values along a dim, one element after the other, in float32 or in the integers' own width."""
    (x,), (dim,) = operands(images, call), params_of(call, ReduceParams).dims
    return ufunc.accumulate(x, axis=dim, dtype=x.dtype) if x.ndim else x


@kernel("cumsum", ReduceParams, l1_bytes=_column_bytes, cycles=("add",))
def cumsum(images: Images, call: Call) -> np.ndarray:
    """Running sums on the SFPU: each adds one rounding of its own to those before it."""
    return _running(np.add, images, call)


@kernel("cumprod", ReduceParams, l1_bytes=_column_bytes, cycles=("multiply",))
def cumprod(images: Images, call: Call) -> np.ndarray:
    """Running products on the SFPU, rounded as running sums are."""
    return _running(np.multiply, images, call)


@kernel("cummax", ReduceParams, l1_bytes=_column_bytes, cycles=("maximum",))
def cummax(images: Images, call: Call) -> np.ndarray:
    """Running maxima."""
    return _running(np.maximum, images, call)


@kernel("cummin", ReduceParams, l1_bytes=_column_bytes, cycles=("maximum",))
def cummin(images: Images, call: Call) -> np.ndarray:
    """Running minima."""
    return _running(np.minimum, images, call)
