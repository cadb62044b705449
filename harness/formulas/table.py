"""Composites and fused ops: what each computes in exact arithmetic, and the size of what its steps round.

A row has the exact form, stable in float64, and the *size* by which one rounding of a step of the usual evaluation in
the op's own steps moves the result. Where the size is far above the result (the *tail*), terms of that evaluation
cancel: an honest body is no better there, a good kernel is. Sizes are first-order error analyses of the bodies that
frameworks write (Higham, Accuracy and Stability of Numerical Algorithms, 3; Blanchard, Higham and Higham 2021, IMA J.
Numer. Anal. 41(4), for softmax), each tried on honest bodies and on wrong ones (docs/judge.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from opscope.harness.formulas.formula import SMALLEST, Formula
from opscope.harness.formulas.pointwise import POINTWISE

Arrays = Sequence[np.ndarray]


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _softmax_size(x: np.ndarray, axis: int) -> np.ndarray:
    return _softmax(x, axis) * (1 + np.abs(x - x.max(axis=axis, keepdims=True)))


def _log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    below = x - x.max(axis=axis, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=axis, keepdims=True))


def _log_softmax_size(x: np.ndarray, axis: int) -> np.ndarray:
    below = x - x.max(axis=axis, keepdims=True)
    return np.abs(below) + np.abs(np.log(np.exp(below).sum(axis=axis, keepdims=True))) + 1


def _axes(x: np.ndarray, normalized_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The last dims of a norm."""
    return tuple(range(x.ndim - max(1, len(normalized_shape)), x.ndim))


def _scaled(y: np.ndarray, rest: Arrays) -> np.ndarray:
    """A norm's result times its weight, plus its bias, each if there is one."""
    for number, each in enumerate(rest[:2]):
        y = y + each if number else y * each
    return y


def _sample(count: int, fewer: int) -> float:
    """What a mean over `count` values becomes where it is taken over `fewer` of them."""
    return count / (count - fewer) if count > fewer else math.nan


def _layer_norm(
    x: np.ndarray, *rest: np.ndarray, epsilon: float, normalized_shape: tuple[int, ...], fewer: int = 0
) -> np.ndarray:
    axes = _axes(x, normalized_shape)
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    if fewer:
        variance = variance * _sample(_last(x, normalized_shape=normalized_shape), fewer)
    return _scaled(centred / np.sqrt(variance + epsilon), rest)


def _layer_norm_size(x: np.ndarray, *rest: np.ndarray, epsilon: float, normalized_shape: tuple[int, ...]) -> np.ndarray:
    axes = _axes(x, normalized_shape)
    mean = np.abs(x.mean(axis=axes, keepdims=True))
    centred = x - x.mean(axis=axes, keepdims=True)
    spread = np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + epsilon)
    weight, bias = (np.abs(each) for each in (*rest, 1.0, 0.0)[:2]) if len(rest) != 1 else (np.abs(rest[0]), 0.0)
    # A mean of values of both signs is off by what their root sum of squares is, however small it is.
    off = np.sqrt(np.square(x).mean(axis=axes, keepdims=True) / _last(x, normalized_shape=normalized_shape))
    return weight * (np.abs(x) + mean + off + np.abs(centred) * (1 + mean / spread)) / spread + bias


def _layer_norm_at_once(
    x: np.ndarray, *rest: np.ndarray, epsilon: float, normalized_shape: tuple[int, ...]
) -> np.ndarray:
    """The size of a layer norm whose variance is the mean of squares less the squared mean."""
    axes, by = _axes(x, normalized_shape), {"epsilon": epsilon, "normalized_shape": normalized_shape}
    mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    weight = np.abs(rest[0]) if rest else 1.0
    # What the variance is off by moves the root by half as much.
    moved = weight * np.abs(x - mean) / np.sqrt(variance + epsilon) * np.square(mean) / (variance + epsilon) / 2
    return _layer_norm_size(x, *rest, **by) + moved


def _rms_norm(x: np.ndarray, *rest: np.ndarray, epsilon: float, normalized_shape: tuple[int, ...]) -> np.ndarray:
    axes = _axes(x, normalized_shape)
    return _scaled(x / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + epsilon), rest)


def _reduced(x: np.ndarray, *_: np.ndarray, axis: int | tuple[int, ...] | None, **__: Any) -> int:
    along = (axis,) if isinstance(axis, int) else range(x.ndim) if axis is None else axis
    return math.prod(x.shape[each] for each in along)


def _sum_size(x: np.ndarray, axis: int | None) -> np.ndarray:
    return np.maximum(np.sqrt(np.square(x).sum(axis=axis)), np.abs(x.sum(axis=axis)))


def _var_size(x: np.ndarray, axis: int | None) -> np.ndarray:
    y, mean = x.var(axis=axis), x.mean(axis=axis)
    return y + np.abs(mean) * np.sqrt(y)


def _var_at_once(x: np.ndarray, axis: int | None) -> np.ndarray:
    return _var_size(x, axis) + np.square(x.mean(axis=axis))


def _weights(q: np.ndarray, k: np.ndarray, mask: Arrays, scale: float | None, is_causal: bool) -> Any:
    """Scores of attention, and their softmax along the last axis."""
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask:
        scores = scores + mask[0]
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    return scores, _softmax(scores, -1)


def _sdpa(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *mask: np.ndarray, scale: float | None, is_causal: bool
) -> np.ndarray:
    return _weights(q, k, mask, scale, is_causal)[1] @ v


def _sdpa_size(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *mask: np.ndarray, scale: float | None, is_causal: bool
) -> np.ndarray:
    scores, weights = _weights(q, k, mask, scale, is_causal)
    factor = q.shape[-1] ** -0.5 if scale is None else abs(scale)
    terms = factor * np.sqrt(np.square(q) @ np.swapaxes(np.square(k), -1, -2))
    moved = np.where(np.isfinite(scores), terms + np.abs(scores), 0.0)
    # A score that is off by e moves y by e P_j (v_j - y), of which |v_j| + |y| is the most.
    around = np.abs(weights @ v)
    return (weights * moved) @ np.abs(v) + (weights * moved).sum(axis=-1, keepdims=True) * around + weights @ np.abs(v)


def _batch_norm_training(
    x: np.ndarray, scale: np.ndarray, offset: np.ndarray, epsilon: float, feature_index: int, fewer: int = 0
) -> list[np.ndarray]:
    axes = tuple(axis for axis in range(x.ndim) if axis != feature_index)
    mean, variance = x.mean(axis=axes), x.var(axis=axes, ddof=fewer)
    along = [1] * x.ndim
    along[feature_index] = -1
    wide = [each.reshape(along) for each in (mean, variance, scale, offset)]
    return [(x - wide[0]) / np.sqrt(wide[1] + epsilon) * wide[2] + wide[3], mean, variance]


def _batch_norm_size(
    x: np.ndarray, scale: np.ndarray, offset: np.ndarray, epsilon: float, feature_index: int
) -> list[np.ndarray]:
    axes = tuple(axis for axis in range(x.ndim) if axis != feature_index)
    mean, variance = x.mean(axis=axes), x.var(axis=axes)
    along = [1] * x.ndim
    along[feature_index] = -1
    mu, sigma, g, b = (each.reshape(along) for each in (mean, np.sqrt(variance + epsilon), scale, offset))
    centred = np.abs(g * (x - mu)) / sigma
    # XLA and others take the variance in one pass, as the mean of squares less the squared mean.
    rms = np.sqrt(np.square(x).mean(axis=axes))
    off = (rms / math.sqrt(_over_channels(x, feature_index=feature_index))).reshape(along)
    y = np.abs(g) * (np.abs(x) + np.abs(mu) + off) / sigma + np.abs(b) + centred * (1 + np.square(mu / sigma))
    return [y, rms, variance + np.square(mean)]


def _over_channels(x: np.ndarray, *_: np.ndarray, feature_index: int, **__: Any) -> int:
    return max(1, x.size // max(1, x.shape[feature_index]))


def _last(x: np.ndarray, *_: np.ndarray, normalized_shape: tuple[int, ...], **__: Any) -> int:
    return math.prod(x.shape[axis] for axis in _axes(x, normalized_shape))


def _l2_norm(x: np.ndarray, axis: int, epsilon: float) -> np.ndarray:
    return x / np.sqrt(np.square(x).sum(axis=axis, keepdims=True) + epsilon)


def _in_groups(x: np.ndarray, num_groups: int) -> np.ndarray:
    """Channels, dim 1, in groups: batch, group, and all else of it."""
    return x.reshape(x.shape[0], num_groups, -1)


def _over_channels_of(x: np.ndarray, each: np.ndarray) -> np.ndarray:
    """One value of a channel in the shape of `x`."""
    return each.reshape(1, -1, *(1,) * (x.ndim - 2))


def _group_norm(x: np.ndarray, *rest: np.ndarray, num_groups: int, epsilon: float, fewer: int = 0) -> np.ndarray:
    grouped = _in_groups(x, num_groups)
    y = _layer_norm(grouped, epsilon=epsilon, normalized_shape=(1,), fewer=fewer).reshape(x.shape)
    return _scaled(y, [_over_channels_of(x, each) for each in rest])


def _group_norm_size(
    x: np.ndarray, *rest: np.ndarray, num_groups: int, epsilon: float, of: Callable[..., np.ndarray] = _layer_norm_size
) -> np.ndarray:
    size = of(_in_groups(x, num_groups), epsilon=epsilon, normalized_shape=(1,)).reshape(x.shape)
    weight, *bias = [np.abs(_over_channels_of(x, each)) for each in rest] or [1.0]
    return size * weight + (bias[0] if bias else 0.0)


def _cross_entropy(x: np.ndarray, target: np.ndarray, axis: int) -> np.ndarray:
    """Of logits and the target's probabilities, as many as there are rows: the negative log likelihood."""
    return -np.where(target == 0, 0.0, target * _log_softmax(x, axis)).sum(axis=axis)


def _rope(x: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> np.ndarray:
    """Halves of the last dim are turned against each other (Su et al. 2021, RoFormer; as Llama has it)."""
    first, second = np.split(x, 2, axis=-1)
    return x * cosine + np.concatenate([-second, first], axis=-1) * sine


def _rope_size(x: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> np.ndarray:
    first, second = np.split(np.abs(x), 2, axis=-1)
    return np.abs(x * cosine) + np.concatenate([second, first], axis=-1) * np.abs(sine)


def _adamw_steps(
    p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, *, lr: float, beta1: float, beta2: float, eps: float,
    weight_decay: float, step: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    update = lr * (m / (1 - beta1**step)) / (np.sqrt(v / (1 - beta2**step)) + eps)
    return p * (1 - lr * weight_decay), update, m, v


def _adamw(*tensors: np.ndarray, **given: Any) -> list[np.ndarray]:
    """Parameters, first and second moment after a step (Loshchilov and Hutter 2019, as PyTorch has it)."""
    kept, update, m, v = _adamw_steps(*tensors, **given)
    return [kept - update, m, v]


def _adamw_size(p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, **given: Any) -> list[np.ndarray]:
    kept, _, _, after = _adamw_steps(p, g, m, v, **given)
    # A first moment that cancels moves the parameter by as much as its terms do.
    size = given["beta1"] * np.abs(m) + (1 - given["beta1"]) * np.abs(g)
    _, update, _, _ = _adamw_steps(p, np.abs(g), np.abs(m), v, **given)
    return [np.abs(kept) + np.abs(update), size, after]


def _topk(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray:
    """The largest (least) values along a dim, in order; NaN counts as the largest."""
    order = np.sort(x, axis=axis)
    ends = np.flip(order, axis=axis) if largest else order
    return np.take(ends, range(k), axis=axis)


def _chosen(exact: Callable[..., np.ndarray], axis: int | None = None) -> Formula:
    """A formula each of whose results is an operand's value, or the place of one."""
    size = lambda *x, **by: np.zeros_like(exact(*x, **by))  # noqa: E731
    return Formula(exact, size, attributes={"axis": axis}, floor=_no_floor, elementwise=False, chooses=True)


def _logsumexp(x: np.ndarray, axis: int) -> np.ndarray:
    most = x.max(axis=axis, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    return np.log(np.exp(x - most).sum(axis=axis)) + np.squeeze(most, axis=axis)


def _running_size(x: np.ndarray, axis: int) -> np.ndarray:
    return np.maximum(np.sqrt(np.cumsum(np.square(x), axis=axis)), np.abs(np.cumsum(x, axis=axis)))


def _no_floor(*_: Any, **__: Any) -> float:
    return SMALLEST


def _rows(
    exact: Any,
    size: Any,
    terms: Any,
    attributes: Mapping[str, Any],
    operands: tuple[int, ...] = (1,),
    products: bool = False,
) -> Formula:
    """A formula that adds values up."""
    return Formula(exact, size, operands, attributes, _no_floor, terms, elementwise=False, products=products)


def _varied(
    formula: Formula, grouped: Callable[..., np.ndarray], at_once: Callable[..., np.ndarray] | None = None
) -> Formula:
    """A formula with a variance, of all N values that there are: of a sample's N - 1 it is another's. `at_once`: its
    size where the variance is taken in one pass; None: it has that of one pass."""
    more = () if at_once is None else (at_once,)
    return replace(formula, mistaken=partial(formula.exact, fewer=1), grouped=grouped, other_sizes_of=more)


def _by_channel(y: np.ndarray, feature_index: int, **_: Any) -> np.ndarray:
    along = feature_index if y.ndim > 1 else 0
    return np.moveaxis(y, along, 0).reshape(y.shape[along], -1)


_NORM = {"epsilon": 1e-5, "normalized_shape": ()}
FORMULAS: dict[str, Formula] = {
    **POINTWISE,
    "softmax": _rows(_softmax, _softmax_size, _reduced, {"axis": -1}),
    "log_softmax": _rows(_log_softmax, _log_softmax_size, _reduced, {"axis": -1}),
    "layer_norm": _varied(
        _rows(_layer_norm, _layer_norm_size, _last, _NORM, (1, 2, 3)),
        lambda y, normalized_shape, **_: y.reshape(-1, _last(y, normalized_shape=normalized_shape)),
        _layer_norm_at_once,
    ),
    "rms_norm": _rows(
        _rms_norm, lambda *x, **by: 2 * np.abs(_rms_norm(*x, **by)), _last, {**_NORM, "epsilon": 1e-6}, (1, 2)
    ),
    "sdpa": _rows(
        _sdpa,
        _sdpa_size,
        lambda q, k, *_, **__: q.shape[-1] + k.shape[-2],
        {"scale": None, "is_causal": False},
        (3, 4),
        products=True,
    ),
    "sum": replace(_rows(lambda x, axis: x.sum(axis=axis), _sum_size, _reduced, {"axis": None}), adds=True),
    "mean": replace(
        _rows(
            lambda x, axis: x.mean(axis=axis),
            lambda x, axis: _sum_size(x, axis) / _reduced(x, axis=axis),
            _reduced,
            {"axis": None},
        ),
        adds=True,
    ),
    "var": _varied(
        _rows(lambda x, axis, fewer=0: x.var(axis=axis, ddof=fewer), _var_size, _reduced, {"axis": None}),
        lambda y, **_: y.reshape(-1, 1),
        _var_at_once,
    ),
    "l2_norm": _rows(
        _l2_norm, lambda *x, **by: 2 * np.abs(_l2_norm(*x, **by)), _reduced, {"axis": -1, "epsilon": 1e-6}
    ),
    "group_norm": _varied(
        _rows(
            _group_norm,
            _group_norm_size,
            lambda x, *_, num_groups, **__: x.size // max(1, x.shape[0] * num_groups),
            {"num_groups": 1, "epsilon": 1e-5},
            (1, 2, 3),
        ),
        lambda y, num_groups, **_: y.reshape(y.shape[0] * num_groups, -1),
        partial(_group_norm_size, of=_layer_norm_at_once),
    ),
    "cross_entropy": _rows(
        _cross_entropy,
        lambda x, target, axis: (np.abs(target) * _log_softmax_size(x, axis)).sum(axis=axis),
        _reduced,
        {"axis": -1},
        (2,),
    ),
    "rope": _rows(_rope, _rope_size, lambda *_, **__: 2, {}, (3,)),
    "adamw": _rows(
        _adamw,
        _adamw_size,
        lambda *_, **__: 2,
        {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "step": 1},
        (4,),
    ),
    "topk": Formula(
        _topk,
        lambda *x, **by: np.zeros_like(_topk(*x, **by)),
        attributes={"k": 1, "axis": -1, "largest": True},
        floor=_no_floor,
        elementwise=False,
        chooses=True,
    ),
    "amax": _chosen(lambda x, axis: x.max(axis=axis)),
    "amin": _chosen(lambda x, axis: x.min(axis=axis)),
    "argmax": _chosen(lambda x, axis: x.argmax(axis=axis)),
    "argmin": _chosen(lambda x, axis: x.argmin(axis=axis)),
    "cumsum": _rows(
        lambda x, axis: np.cumsum(x, axis=axis), _running_size, lambda x, axis: x.shape[axis], {"axis": -1}
    ),
    "cumprod": _rows(
        lambda x, axis: np.cumprod(x, axis=axis),
        lambda x, axis: np.abs(np.cumprod(x, axis=axis)),
        lambda x, axis: x.shape[axis],
        {"axis": -1},
    ),
    "logsumexp": _rows(
        _logsumexp, lambda x, axis: 1 + np.abs(_logsumexp(x, axis)) + np.abs(x).max(axis=axis), _reduced, {"axis": -1}
    ),
    "sort": _chosen(lambda x, axis: np.sort(x, axis=axis), -1),
    "prod": _rows(
        lambda x, axis: x.prod(axis=axis),
        lambda x, axis: np.abs(x.prod(axis=axis)),
        _reduced,
        {"axis": None},
    ),
    "batch_norm_training": _varied(
        _rows(_batch_norm_training, _batch_norm_size, _over_channels, {"epsilon": 1e-5, "feature_index": 1}, (3,)),
        _by_channel,
    ),
}
"""Name -> formula. `what` of the judge, and what composites are called by (`COMPOSITES`)."""

OWN = "opscope."
"""How the name of a composite begins that no compiler knows, before the name of its formula."""
COMPOSITES: dict[str, str] = {
    "tenstorrent.gelu": "gelu",
    "tenstorrent.gelu_tanh": "gelu_tanh",
    "tenstorrent.rms_norm": "rms_norm",
    "tenstorrent.layer_norm": "layer_norm",
    **{f"tenstorrent.{name}": name for name in ("swiglu", "glu", "geglu", "reglu", "group_norm")},
    "tenstorrent.scaled_dot_product_attention": "sdpa",
    "odml.rms_norm": "rms_norm",
    "odml.l2_norm": "l2_norm",
    "aten.hardswish.default": "hardswish",
    "aten.gelu.default": "gelu",
    "chlo.erf": "erf",
}
"""Name of a composite, as compilers and frameworks write it -> its formula."""
