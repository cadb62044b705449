"""What each op of tt-mlir's dialect `ttir` computes, written with JAX, which says it in StableHLO.

A function here takes the op's operands and its attributes by their names, and `out`, the types of its results. It
returns one array or a tuple; what calls it converts these to the element types of the results. Ops that tt-mlir knows
as composites are composites, others the formula that it fuses back. Semantics are those of `TTIROps.td` of tt-mlir
19c86fca: implicit broadcasting, NHWC, PyTorch's dimensions. An attribute that a function does not take is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Meaning = Callable[..., Any]
INTO: dict[str, int] = {
    "update_cache": 3,
    "fill_cache": 2,
    "paged_update_cache": 4,
    "paged_fill_cache": 4,
}
"""Ops that change their first operand in place, and how many operands they have at most."""
DRAWS = frozenset({"rand", "dropout", "sampling"})
"""Ops whose results are random numbers of the device's own generator."""
AMONG_CHIPS = frozenset(
    {
        *("all_gather", "all_reduce", "all_reduce_async", "reduce_scatter", "collective_permute", "all_to_all"),
        *("collective_broadcast", "mesh_shard", "mesh_partition", "distributed_rms_norm", "distributed_layer_norm"),
        *("all_to_all_dispatch", "all_to_all_dispatch_metadata", "all_to_all_combine", "selective_reduce_combine"),
    }
)
"""Ops that several chips take part in."""


def _wide(x: Any) -> Any:
    """Half-precision numbers as f32, so that what several steps compute is rounded once."""
    return x.astype(jnp.float32) if x.dtype in (jnp.bfloat16, jnp.float16) else x


def _each(function: Meaning) -> Meaning:
    """A formula of several steps of one operand."""
    return lambda x: function(_wide(x))


def _both(function: Meaning) -> Meaning:
    """A function of two operands that are broadcast, in the wider of their types and the result's float type."""

    def meaning(a: Any, b: Any, out: Any) -> Any:
        kind = jnp.promote_types(a.dtype, b.dtype)
        if jnp.issubdtype(kind, jnp.floating) and jnp.issubdtype(out[0].dtype, jnp.floating):
            kind = jnp.promote_types(kind, out[0].dtype)
        return function(*jnp.broadcast_arrays(a.astype(kind), b.astype(kind)))

    return meaning


def _truth(function: Meaning) -> Meaning:
    return lambda *operands: function(*jnp.broadcast_arrays(*(x != 0 if x.dtype != bool else x for x in operands)))


def _compare(function: Meaning) -> Meaning:
    def meaning(a: Any, b: Any) -> Any:
        kind = jnp.promote_types(a.dtype, b.dtype)
        return function(*jnp.broadcast_arrays(a.astype(kind), b.astype(kind)))

    return meaning


def _where(condition: Any, a: Any, b: Any, out: Any) -> Any:
    truth = condition if condition.dtype == bool else condition != 0
    kind = out[0].dtype
    return lax.select(*jnp.broadcast_arrays(truth, a.astype(kind), b.astype(kind)))


def _clamp(x: Any, min: Any, max: Any) -> Any:
    low, high = (jnp.asarray(bound, x.dtype) for bound in (min, max))
    low, high, value = jnp.broadcast_arrays(low, high, x)
    return lax.clamp(low, value, high)


def _selu(x: Any, scale: float = 1.0507009873390197, alpha: float = 1.6732635498046875) -> Any:
    x = _wide(x)
    return scale * jnp.where(x > 0, x, alpha * jnp.expm1(jnp.minimum(x, 0)))


def _gelu(x: Any, approximate: str = "none") -> Any:
    tanh = approximate == "tanh"

    def formula(value: Any, **_: Any) -> Any:
        wide = _wide(value)
        if tanh:
            made = 0.5 * wide * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
        else:
            made = 0.5 * wide * (1 + lax.erf(wide * math.sqrt(0.5)))
        return made.astype(value.dtype)

    name = "tenstorrent.gelu_tanh" if tanh else "tenstorrent.gelu"
    return lax.composite(formula, name)(x, approximate="tanh" if tanh else "none")


def _gelu_bw(grad: Any, x: Any, approximate: str = "none") -> Any:
    _, pull = jax.vjp(lambda value: jax.nn.gelu(value, approximate=approximate == "tanh"), _wide(x))
    return pull(_wide(grad))[0]


def _axes(dims: Any, rank: int) -> tuple[int, ...]:
    """Dims of an attribute that may be absent, one number, or several."""
    if dims is None:
        return tuple(range(rank))
    return tuple(sorted(d % rank for d in ([dims] if isinstance(dims, int) else dims))) if rank else ()


def _reduction(function: Meaning, start: Meaning, truths: bool = False, rounds: bool = False) -> Meaning:
    """A reduction that `rounds` is made in float32 at least, as kernels add: in bf16 a sum stops growing at 256."""

    def meaning(x: Any, keep_dim: bool = False, dim_arg: Any = None) -> Any:
        axes = _axes(dim_arg, x.ndim)
        x = x != 0 if truths and x.dtype != bool else _wide(x) if rounds else x
        made = lax.reduce(x, np.asarray(start(x.dtype), x.dtype), function, axes)
        return jnp.expand_dims(made, axes) if keep_dim else made

    return meaning


def _least(kind: Any) -> Any:
    return -np.inf if jnp.issubdtype(kind, jnp.floating) else np.iinfo(kind).min


def _most(kind: Any) -> Any:
    return np.inf if jnp.issubdtype(kind, jnp.floating) else np.iinfo(kind).max


_sum = _reduction(lax.add, lambda _: 0, rounds=True)


def _mean(x: Any, keep_dim: bool = False, dim_arg: Any = None) -> Any:
    wide = _wide(x)
    if not jnp.issubdtype(wide.dtype, jnp.floating):
        raise ValueError("the mean of integers")
    count = math.prod(x.shape[axis] for axis in _axes(dim_arg, x.ndim))
    return _sum(wide, keep_dim, dim_arg) / count


def _argmax(x: Any, out: Any, keep_dim: bool = False, dim_arg: Any = None) -> Any:
    axes = _axes(dim_arg, x.ndim)
    if len(axes) not in (1, x.ndim):
        raise ValueError("several dims, but not all")
    [kind] = [each.dtype for each in out]
    made = lax.argmax(x, axes[0], kind) if len(axes) == 1 else lax.argmax(x.reshape(-1), 0, kind)
    return jnp.expand_dims(made, axes) if keep_dim else made


def _scan(function: Meaning) -> Meaning:
    return lambda x, dim: function(_wide(x), axis=dim % x.ndim)


def _softmax(x: Any, dimension: int, numericStable: bool = False) -> Any:  # noqa: N803 - the attribute's name
    wide, axis = _wide(x), dimension % x.ndim
    made = jnp.exp(wide - jnp.max(wide, axis, keepdims=True))
    return made / jnp.sum(made, axis, keepdims=True)


def _matmul(a: Any, b: Any, out: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    a = jnp.swapaxes(a, -1, -2) if transpose_a else a
    b = jnp.swapaxes(b, -1, -2) if transpose_b else b
    kind = jnp.promote_types(a.dtype, b.dtype)
    return jnp.matmul(a.astype(kind), b.astype(kind), preferred_element_type=jnp.promote_types(kind, out[0].dtype))


def _linear(a: Any, b: Any, *bias: Any, out: Any, **attributes: Any) -> Any:
    made = _matmul(a, b, out, **attributes)
    return made + bias[0].astype(made.dtype) if bias else made


def _dot_general(
    a: Any, b: Any, out: Any, batch_dims_lhs: Any, batch_dims_rhs: Any, contract_dims_lhs: Any, contract_dims_rhs: Any
) -> Any:
    numbers = (contract_dims_lhs, contract_dims_rhs), (batch_dims_lhs, batch_dims_rhs)
    return lax.dot_general(a, b, numbers, preferred_element_type=out[0].dtype)


def _pair(value: Any, count: int = 2) -> tuple[int, ...]:
    return (value,) * count if isinstance(value, int) else tuple(value)


def _pads(padding: Any, count: int) -> list[tuple[int, int]]:
    """One number, one a dim, or all at the lower ends before all at the upper ones."""
    sizes = _pair(padding, count)
    return list(zip(sizes[:count], sizes[-count:], strict=True))


def _conv(count: int, dims: Sequence[str]) -> Meaning:
    """A convolution along `count` dims, whose places the attributes `dims` say: batch, these, channels."""

    def meaning(x: Any, weight: Any, *bias: Any, out: Any, stride: Any, padding: Any, groups: int, **rest: Any) -> Any:
        places = [rest.pop(f"{name}_dim", number) for number, name in enumerate(dims)]
        dilation = _pair(rest.pop("dilation", 1), count)
        if rest.pop("padding_mode", "zeros") != "zeros" or rest:
            raise TypeError(f"{', '.join(rest) or 'padding_mode'}")
        letters = "N" + "DHW"[3 - count :] + "C"
        order = "".join(letters[places.index(at)] for at in range(count + 2))
        spec = (order, "OI" + letters[1:-1], order)
        made = lax.conv_general_dilated(
            x,
            weight,
            _pair(stride, count),
            _pads(padding, count),
            rhs_dilation=dilation,
            dimension_numbers=spec,
            feature_group_count=groups,
        )
        return made + _along(bias[0], made, places[-1]) if bias else made

    return meaning


def _along(bias: Any, value: Any, axis: int) -> Any:
    return bias.reshape([-1 if at == axis else 1 for at in range(value.ndim)]).astype(value.dtype)


def _conv_transpose2d(
    x: Any,
    weight: Any,
    *bias: Any,
    out: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
    batch_dim: int = 0,
    height_dim: int = 1,
    width_dim: int = 2,
    channel_dim: int = 3,
) -> Any:
    places = (batch_dim, height_dim, width_dim, channel_dim)
    order = "".join("NHWC"[places.index(at)] for at in range(4))
    taken, made, *kernel = weight.shape
    flipped = jnp.flip(weight, (2, 3)).reshape(groups, taken // groups, made, *kernel)
    flipped = jnp.swapaxes(flipped, 1, 2).reshape(groups * made, taken // groups, *kernel)
    steps = _pair(dilation)
    ends = zip(kernel, steps, _pads(padding, 2), _pair(output_padding), strict=True)
    pads = [(d * (k - 1) - low, d * (k - 1) - high + more) for k, d, (low, high), more in ends]
    result = lax.conv_general_dilated(
        x,
        flipped,
        (1, 1),
        pads,
        lhs_dilation=_pair(stride),
        rhs_dilation=steps,
        dimension_numbers=(order, "OIHW", order),
        feature_group_count=groups,
    )
    return result + _along(bias[0], result, channel_dim) if bias else result


def _windows(x: Any, out: Any, kernel: Any, stride: Any, dilation: Any, padding: Any) -> tuple[Any, ...]:
    """Sizes, strides, pads and dilations of NHWC windows; what rounding up adds stands at the upper ends."""
    pads = []
    for size, count, k, s, d, (low, high) in zip(
        x.shape[1:3],
        out.shape[1:3],
        _pair(kernel),
        _pair(stride),
        _pair(dilation),
        _pads(padding, 2),
        strict=True,
    ):
        pads.append((low, max(high, (count - 1) * s + d * (k - 1) + 1 - size - low)))
    return (1, *_pair(kernel), 1), (1, *_pair(stride), 1), [(0, 0), *pads, (0, 0)], (1, *_pair(dilation), 1)


def _pool(x: Any, out: Any, start: Any, function: Meaning, **attributes: Any) -> Any:
    window, strides, pads, steps = _windows(x, out[0], **attributes)
    made = lax.reduce_window(x, np.asarray(start, x.dtype), function, window, strides, pads, window_dilation=steps)
    return made[:, : out[0].shape[1], : out[0].shape[2]]


def _max_pool2d(x: Any, out: Any, ceil_mode: bool = False, **attributes: Any) -> Any:
    return _pool(x, out, _least(x.dtype), lax.max, **attributes)


def _avg_pool2d(x: Any, out: Any, ceil_mode: bool = False, count_include_pad: bool = True, **attributes: Any) -> Any:
    """Divides by the elements of a window, with padding where that counts, never with what rounding up adds."""
    sizes = _windows(x, out[0], **attributes)
    counts = []
    for at, (low, high) in enumerate(_pads(attributes["padding"], 2), 1):
        there = np.arange(sum(sizes[2][at]) + x.shape[at]) - sizes[2][at][0]
        first, last = (-low, x.shape[at] + high) if count_include_pad else (0, x.shape[at])
        starts = np.arange(out[0].shape[at])[:, None] * sizes[1][at] + np.arange(sizes[0][at]) * sizes[3][at]
        places = there[0] + starts
        counts.append(((places >= first) & (places < last)).sum(1))
    count = (counts[0][:, None] * counts[1]).astype(np.float32)[None, :, :, None]
    return _pool(_wide(x), out, 0, lax.add, **attributes) / count


def _max_pool2d_with_indices(x: Any, out: Any, ceil_mode: bool = False, **attributes: Any) -> Any:
    """The indices are those of an image's pixels, counted row by row; of equal values the first is taken."""
    window, strides, pads, steps = _windows(x, out[0], **attributes)
    places = lax.broadcasted_iota(jnp.int32, x.shape, 1) * x.shape[2] + lax.broadcasted_iota(jnp.int32, x.shape, 2)

    def larger(a: Any, b: Any) -> Any:
        first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return tuple(lax.select(first, p, q) for p, q in zip(a, b, strict=True))

    starts = np.asarray(_least(x.dtype), x.dtype), np.asarray(np.iinfo(np.int32).max, np.int32)
    return lax.reduce_window((x, places), starts, larger, window, strides, pads, window_dilation=steps)


def _global_avg_pool2d(x: Any) -> Any:
    return _mean(x, True, (1, 2))


def _norm(name: str, centred: bool) -> Meaning:
    def meaning(x: Any, weight: Any, bias: Any, *, normalized_shape: Any, epsilon: float = 1e-5) -> Any:
        def formula(value: Any, *vectors: Any, **_: Any) -> Any:
            wide = _wide(value)
            axes = tuple(range(value.ndim - len(normalized_shape), value.ndim))
            wide = wide - jnp.mean(wide, axes, keepdims=True) if centred else wide
            made = wide * lax.rsqrt(jnp.mean(wide * wide, axes, keepdims=True) + epsilon)
            for vector, apply in zip(vectors, given, strict=True):
                made = apply(made, _wide(vector))
            return made.astype(value.dtype)

        pairs = [(v, f) for v, f in ((weight, jnp.multiply), (bias, jnp.add)) if v is not None]
        given = [apply for _, apply in pairs]
        if weight is None and bias is not None:
            return formula(x, bias)
        shape = np.asarray(normalized_shape, np.int64)
        call = lax.composite(formula, f"tenstorrent.{name}")
        return call(x, *(v for v, _ in pairs), epsilon=np.float32(epsilon), normalized_shape=shape)

    return meaning


def _group_norm(
    x: Any, mask: Any, weight: Any, bias: Any, *, num_groups: int, epsilon: float = 1e-12, channel_dim: int = 3
) -> Any:
    if mask is not None:
        raise ValueError("input_mask")
    axis = channel_dim % x.ndim
    moved = jnp.moveaxis(_wide(x), axis, 1)
    groups = moved.reshape(moved.shape[0], num_groups, -1)
    centred = groups - jnp.mean(groups, 2, keepdims=True)
    made = centred * lax.rsqrt(jnp.mean(centred * centred, 2, keepdims=True) + epsilon)
    made = jnp.moveaxis(made.reshape(moved.shape), 1, axis)
    made = made if weight is None else made * _along(weight, made, axis)
    return made if bias is None else made + _along(bias, made, axis)


def _batch_norm(x: Any, scale: Any, offset: Any, mean: Any, variance: Any, *, epsilon: float, dimension: int) -> Any:
    wide = _wide(x)
    scale, offset, mean, variance = (_along(_wide(v), wide, dimension) for v in (scale, offset, mean, variance))
    return (wide - mean) * lax.rsqrt(variance + epsilon) * scale + offset


def _attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    sink: Any = None,
    *,
    scale: float | None = None,
    seen: Any = None,
) -> Any:
    """Attention of [batch, heads, positions, size] in f32. Each head of keys serves several of queries; `seen` says
    which keys a query sees, and a sink is one more score that takes its share of the sum."""
    q, k, v = (_wide(x) for x in (query, key, value))
    k, v = (jnp.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    scores = scores if mask is None else scores + _wide(mask)
    scores = scores if seen is None else jnp.where(seen, scores, -np.inf)
    if sink is not None:
        column = jnp.broadcast_to(_wide(sink).reshape(1, -1, 1, 1), (*scores.shape[:3], 1))
        scores = jnp.concatenate([scores, column], -1)
    weights = _softmax(scores, -1)
    return jnp.einsum("bhqk,bhkd->bhqd", weights[..., : k.shape[2]], v).astype(query.dtype)


def _sdpa(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    sink: Any,
    *,
    is_causal: bool = True,
    scale: float | None = None,
    sliding_window_size: int | None = None,
) -> Any:
    rows, columns = query.shape[2], key.shape[2]
    behind = np.arange(rows)[:, None] - np.arange(columns)
    seen = behind >= 0 if is_causal else None
    if sliding_window_size is not None:
        near = behind < sliding_window_size if is_causal else np.abs(behind) <= sliding_window_size // 2
        seen = near if seen is None else seen & near

    def formula(q: Any, k: Any, v: Any, *masks: Any, **_: Any) -> Any:
        return _attention(q, k, v, *masks, scale=scale, seen=seen)

    if sink is not None or sliding_window_size is not None:
        return _attention(query, key, value, mask, sink, scale=scale, seen=seen)
    given = {} if scale is None else {"scale": np.float32(scale)}
    call = lax.composite(formula, "tenstorrent.scaled_dot_product_attention")
    return call(query, key, value, *([] if mask is None else [mask]), is_causal=is_causal, **given)


def _decoded(query: Any, key: Any, value: Any, mask: Any, at: Any, sink: Any, is_causal: bool, **given: Any) -> Any:
    """Attention of one position for each user, [1, users, heads, size], to keys up to the one that is its own."""
    seen, window = None, given.pop("sliding_window_size", None)
    if is_causal and at is not None:
        places, own = np.arange(key.shape[2])[None, None, None], at.reshape(-1, 1, 1, 1)
        seen = places <= own
        seen = seen if window is None else seen & (places > own - window)
    if mask is not None and mask.shape[2] != 1:
        mask = jnp.swapaxes(mask, 1, 2)
    made = _attention(jnp.transpose(query, (1, 2, 0, 3)), key, value, mask, sink, seen=seen, **given)
    return jnp.transpose(made, (2, 0, 1, 3))


def _sdpa_decode(q: Any, k: Any, v: Any, mask: Any, at: Any, sink: Any, *, is_causal: bool = True, **given: Any) -> Any:
    return _decoded(q, k, v, mask, at, sink, is_causal, **given)


def _paged_sdpa_decode(
    q: Any,
    k: Any,
    v: Any,
    table: Any,
    into: Any,
    mask: Any,
    at: Any,
    sink: Any,
    *,
    is_causal: bool = True,
    **given: Any,
) -> Any:
    k, v = (_pages(x, table) for x in (k, v))
    return _decoded(q, k, v, mask, at, sink, is_causal, **given)


def _pages(cache: Any, table: Any) -> Any:
    """Each user's keys, [users, heads, positions, size], of the blocks that a table names."""
    taken = jnp.take(cache, table.astype(jnp.int32), axis=0, mode="clip")
    users, blocks, heads, positions, size = taken.shape
    return jnp.swapaxes(taken, 1, 2).reshape(users, heads, blocks * positions, size)


def _update_cache(cache: Any, value: Any, index: Any, batch_offset: int = 0) -> Any:
    """One position of each user; they stand in the third dim of the values."""
    if cache.ndim == 4 and value.shape[0] == 1 and value.shape[1] == cache.shape[1]:
        value = jnp.transpose(value, (2, 1, 0, 3))[: cache.shape[0]]
    value = value.astype(cache.dtype)
    index = index.reshape(-1)
    if index.size != 1:
        for user in range(value.shape[0]):
            at = index[user]
            cache = _put(cache, value[user : user + 1], (batch_offset + user, *(0,) * (cache.ndim - 3), at, 0))
        return cache
    return _put(cache, value, (batch_offset, *(0,) * (cache.ndim - 3), index[0], 0))


def _put(cache: Any, value: Any, starts: Sequence[Any]) -> Any:
    return lax.dynamic_update_slice(cache, value, [jnp.asarray(s, jnp.int32) for s in starts])


def _fill_cache(cache: Any, value: Any, batch_offset: int = 0) -> Any:
    return _put(cache, value.astype(cache.dtype), (batch_offset, *(0,) * (cache.ndim - 1)))


def _paged_update_cache(cache: Any, value: Any, index: Any, table: Any = None, share_cache: bool = False) -> Any:
    """Users one after another, since two may own one block; one whose index is negative changes nothing."""
    heads, size = cache.shape[1:3]
    for user in range(index.shape[0]):
        at = index[user].astype(jnp.int32)
        block = user if table is None else table[user, jnp.clip(at // size, 0, table.shape[1] - 1)]
        row = value[0, user, :heads].astype(cache.dtype)[None, :, None]
        changed = _put(cache, row, (block, 0, at if table is None else at % size, 0))
        cache = jnp.where(at < 0, cache, changed)
    return cache


def _paged_fill_cache(cache: Any, value: Any, table: Any, user: Any = None) -> Any:
    """Blocks one after another, since a table may name one twice."""
    size, own = cache.shape[2], 0 if user is None else user.reshape(-1)[0].astype(jnp.int32)
    for number in range(-(-value.shape[2] // size)):
        part = value[:1, :, number * size : (number + 1) * size].astype(cache.dtype)
        cache = _put(cache, part, (table[own, number], 0, 0, 0))
    return cache


def _concatenate_heads(x: Any, out: Any) -> Any:
    return jnp.swapaxes(x, 1, 2).reshape(out[0].shape)


def _split_heads(
    x: Any, kv: Any = None, *, out: Any, num_heads: int, transpose_key: bool, num_kv_heads: int | None = None
) -> Any:
    count = num_kv_heads or num_heads
    joined = x if kv is None else jnp.concatenate([x, kv.astype(x.dtype)], -1)
    size = joined.shape[-1] // (num_heads + 2 * count)
    heads = jnp.swapaxes(joined.reshape(*joined.shape[:2], -1, size), 1, 2)
    query, key, value = heads[:, :num_heads], heads[:, num_heads : num_heads + count], heads[:, num_heads + count :]
    return query, jnp.swapaxes(key, 2, 3) if transpose_key else key, value


def _embedding(index: Any, weight: Any, out: Any) -> Any:
    table = weight.reshape(weight.shape[-2:])
    return jnp.take(table, index.astype(jnp.int32), axis=0, mode="clip").reshape(out[0].shape)


def _embedding_backward(index: Any, weight: Any, gradient: Any, out: Any) -> Any:
    kind = out[0]
    rows = gradient.reshape(-1, gradient.shape[-1])
    made = jnp.zeros(kind.shape[-2:], _wide(rows).dtype).at[index.reshape(-1).astype(jnp.int32)].add(_wide(rows))
    return made.reshape(kind.shape)


def _gather(x: Any, index: Any, out: Any, dim: Any = None, **numbers: Any) -> Any:
    """PyTorch's, or with StableHLO's numbers, as tt-mlir wrote it before."""
    if dim is not None and not numbers:
        return jnp.take_along_axis(x, index.astype(jnp.int32), dim % x.ndim, mode="clip")
    for name in ("operand_batching_dims", "start_indices_batching_dims"):
        if numbers.pop(name, ()):
            raise ValueError(name)
    last = numbers.pop("index_vector_dim")
    ordered = numbers.pop("indices_are_sorted", False)
    sizes = numbers.pop("slice_sizes")
    index = jnp.moveaxis(index, last, -1) if last < index.ndim else index[..., None]
    dims = lax.GatherDimensionNumbers(**{name: tuple(values) for name, values in numbers.items()})
    return lax.gather(x, index, dims, tuple(sizes), indices_are_sorted=ordered, mode="clip")


def _scatter(x: Any, index: Any, source: Any, dim: int, scatter_reduce_type: str) -> Any:
    grid = [lax.broadcasted_iota(jnp.int32, index.shape, axis) for axis in range(index.ndim)]
    grid[dim % x.ndim] = index.astype(jnp.int32)
    source = source[tuple(slice(size) for size in index.shape)].astype(x.dtype)
    at = x.at[tuple(grid)]
    ways = {"sum": at.add, "prod": at.multiply, "min": at.min, "max": at.max, "invalid": at.set}
    return ways[scatter_reduce_type](source)


def _sort(x: Any, out: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    places = lax.broadcasted_iota(out[1].dtype, x.shape, dim % x.ndim)
    key = x if not descending else -x if jnp.issubdtype(x.dtype, jnp.floating) else ~x
    _, values, indices = lax.sort((key, x, places), dim % x.ndim, True, 1)
    return values, indices


def _topk(x: Any, out: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = False) -> Any:
    moved = jnp.moveaxis(x, dim, -1)
    lowest = jnp.issubdtype(x.dtype, jnp.floating)
    values, indices = lax.top_k(moved if largest else -moved if lowest else ~moved, k)
    values = values if largest else -values if lowest else ~values
    return jnp.moveaxis(values, -1, dim), jnp.moveaxis(indices, -1, dim)


def _topk_router(x: Any, weight: Any, bias: Any, out: Any, k: int, num_experts: int) -> Any:
    """The shares of the k best experts among these."""
    if out[0].shape[-1] != k:
        raise ValueError("results that are padded")
    values, indices = lax.top_k(_wide(x) @ _wide(weight) + _wide(bias), k)
    return indices, _softmax(values, -1)


def _slice(x: Any, begins: Any, ends: Any, step: Any) -> Any:
    bounds = [[p + n if p < 0 else p for p, n in zip(part, x.shape, strict=True)] for part in (begins, ends)]
    return lax.slice(x, bounds[0], [min(e, n) for e, n in zip(bounds[1], x.shape, strict=True)], step)


def _index(x: Any, dim: int, begin: int, end: int, step: int) -> Any:
    axis = dim % x.ndim
    begin, end = (p + x.shape[axis] if p < 0 else p for p in (begin, end))
    return lax.slice_in_dim(x, begin, min(end, x.shape[axis]), step, axis)


def _index_select(x: Any, out: Any, dim: int, begin: int, length: int, stride: int = 0) -> Any:
    axis = dim % x.ndim
    starts = range(begin, x.shape[axis] - length + 1, stride) if stride else [begin]
    return jnp.concatenate([lax.slice_in_dim(x, s, s + length, 1, axis) for s in starts], axis)


def _pad(x: Any, padding: Any, value: float) -> Any:
    return lax.pad(
        x, np.asarray(value, x.dtype), [(lo, hi, 0) for lo, hi in zip(padding[::2], padding[1::2], strict=True)]
    )


def _repeat(x: Any, repeat_dimensions: Any) -> Any:
    """`x` so often along each dim: one of size 1 is broadcast."""
    if all(size == 1 or count == 1 for size, count in zip(x.shape, repeat_dimensions, strict=True)):
        return jnp.broadcast_to(x, [s * c for s, c in zip(x.shape, repeat_dimensions, strict=True)])
    return jnp.tile(x, repeat_dimensions)


def _rearrange(x: Any, out: Any, pattern: str) -> Any:
    """`z y x -> (y z) x`: names of dims, permuted and joined."""
    before, _, after = pattern.partition("->")
    names = before.split()
    if len(names) != x.ndim or not all(name.isidentifier() for name in names):
        raise ValueError("dims that are split")
    order = [names.index(name) for name in after.replace("(", " ").replace(")", " ").split()]
    return jnp.transpose(x, order).reshape(out[0].shape)


def _upsample2d(x: Any, out: Any, scale_factor: Any, mode: str = "nearest") -> Any:
    if mode == "nearest":
        height, width = _pair(scale_factor)
        return jnp.repeat(jnp.repeat(x, height, 1), width, 2)
    if mode != "bilinear":
        raise ValueError(f"mode {mode}")
    return jax.image.resize(_wide(x), out[0].shape, "bilinear", antialias=False)


def _arange(out: Any, start: int, end: int, step: int, arange_dimension: int) -> Any:
    [kind] = out
    return start + step * lax.broadcasted_iota(kind.dtype, kind.shape, arange_dimension)


def _swap(x: Any, dim0: int, dim1: int) -> Any:
    return jnp.swapaxes(x, dim0, dim1)


def _same(x: Any, *_: Any, out: Any) -> Any:
    return lax.convert_element_type(x, out[0].dtype)


def _reshape(x: Any, out: Any, **_: Any) -> Any:
    return lax.reshape(x, out[0].shape)


MEANINGS: dict[str, Meaning] = {
    **{
        name: getattr(lax, name)
        for name in ("abs", "cbrt", "ceil", "cos", "acos", "floor", "tan", "atan", "tanh", "rsqrt", "sign", "sin")
    },
    **{name: getattr(lax, name) for name in ("asin", "asinh", "sqrt", "log", "log1p", "expm1", "exp", "exp2")},
    **{name: getattr(lax, name) for name in ("erf", "erfc", "neg", "bitwise_not")},
    "sigmoid": lax.logistic,
    "isfinite": lambda x: lax.is_finite(x) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.ones(x.shape, bool),
    "signbit": jnp.signbit,
    "trunc": lambda x: jnp.trunc(x),
    "frac": _each(lambda x: x - jnp.trunc(x)),
    "relu": lambda x: lax.max(x, lax.full_like(x, 0)),
    "relu6": lambda x: _clamp(x, 0, 6),
    "reciprocal": lambda x: lax.div(lax.full_like(x, 1), x),
    "square": lambda x: lax.mul(x, x),
    "softsign": _each(lambda x: x / (1 + lax.abs(x))),
    "hardsigmoid": _each(lambda x: jnp.clip(x + 3, 0, 6) / 6),
    "silu": _each(lambda x: x * lax.logistic(x)),
    "mish": _each(lambda x: x * jnp.tanh(jnp.logaddexp(x, 0.0))),
    "leaky_relu": lambda x, parameter: jnp.where(x >= 0, x, (_wide(x) * parameter).astype(x.dtype)),
    "selu": _selu,
    "gelu": _gelu,
    "gelu_bw": _gelu_bw,
    "logical_not": _truth(lax.bitwise_not),
    "logical_and": _truth(lax.bitwise_and),
    "logical_or": _truth(lax.bitwise_or),
    "logical_xor": _truth(lax.bitwise_xor),
    **{name: _compare(getattr(lax, name)) for name in ("eq", "ne", "ge", "gt", "le", "lt")},
    "add": _both(lax.add),
    "subtract": _both(lax.sub),
    "multiply": _both(lax.mul),
    "div": _both(lax.div),
    "maximum": _both(lax.max),
    "minimum": _both(lax.min),
    "pow": _both(lax.pow),
    "atan2": _both(lax.atan2),
    "remainder": _both(lax.rem),
    **{name: _both(getattr(lax, name)) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "logical_left_shift": _both(lax.shift_left),
    "logical_right_shift": _both(lax.shift_right_logical),
    "right_shift": _both(lax.shift_right_arithmetic),
    "where": _where,
    "clamp_scalar": _clamp,
    "clamp_tensor": _clamp,
    "typecast": _same,
    "to_layout": _same,
    "bitcast_convert": lambda x, out: lax.bitcast_convert_type(x, out[0].dtype),
    "sum": _sum,
    "prod": _reduction(lax.mul, lambda _: 1, rounds=True),
    "max": _reduction(lax.max, _least),
    "min": _reduction(lax.min, _most),
    "reduce_and": _reduction(lax.bitwise_and, lambda _: True, truths=True),
    "reduce_or": _reduction(lax.bitwise_or, lambda _: False, truths=True),
    "mean": _mean,
    "argmax": _argmax,
    "cumsum": _scan(lax.cumsum),
    "cumprod": _scan(lax.cumprod),
    "softmax": _softmax,
    "matmul": _matmul,
    "linear": _linear,
    "dot_general": _dot_general,
    "conv1d": _conv(1, ("batch", "length", "channel")),
    "conv2d": _conv(2, ("batch", "height", "width", "channel")),
    "conv3d": _conv(3, ("batch", "depth", "height", "width", "channel")),
    "conv_transpose2d": _conv_transpose2d,
    "max_pool2d": _max_pool2d,
    "avg_pool2d": _avg_pool2d,
    "max_pool2d_with_indices": _max_pool2d_with_indices,
    "global_avg_pool2d": _global_avg_pool2d,
    "rms_norm": _norm("rms_norm", centred=False),
    "layer_norm": _norm("layer_norm", centred=True),
    "group_norm": _group_norm,
    "batch_norm_inference": _batch_norm,
    "scaled_dot_product_attention": _sdpa,
    "scaled_dot_product_attention_decode": _sdpa_decode,
    "paged_scaled_dot_product_attention_decode": _paged_sdpa_decode,
    "update_cache": _update_cache,
    "fill_cache": _fill_cache,
    "paged_update_cache": _paged_update_cache,
    "paged_fill_cache": _paged_fill_cache,
    "concatenate_heads": _concatenate_heads,
    "split_query_key_value_and_split_heads": _split_heads,
    "embedding": _embedding,
    "embedding_backward": _embedding_backward,
    "gather": _gather,
    "scatter": _scatter,
    "sort": _sort,
    "topk": _topk,
    "topk_router_gpt": _topk_router,
    "slice_static": _slice,
    "index": _index,
    "index_select": _index_select,
    "pad": _pad,
    "reshape": _reshape,
    "squeeze": _reshape,
    "unsqueeze": _reshape,
    "transpose": _swap,
    "permute": lambda x, permutation: lax.transpose(x, permutation),
    "concat": lambda *xs, dim: lax.concatenate(xs, dim % xs[0].ndim),
    "reverse": lambda x, dimensions: lax.rev(x, dimensions),
    "broadcast": lambda x, broadcast_dimensions: _repeat(x, broadcast_dimensions),
    "repeat": _repeat,
    "repeat_interleave": lambda x, repeats, dim: jnp.repeat(x, repeats, dim),
    "rearrange": _rearrange,
    "upsample2d": _upsample2d,
    "arange": _arange,
}
"""Name of an op -> what it computes. Constants are made without JAX, so that a splat is one element."""
SEGMENTS: dict[str, int] = {
    "rms_norm": 3,
    "layer_norm": 3,
    "group_norm": 4,
    "scaled_dot_product_attention": 5,
    "scaled_dot_product_attention_decode": 6,
    "paged_scaled_dot_product_attention_decode": 8,
}
"""Ops with optional operands, which a function takes in their places, None where there is none."""
