"""Composites and fused ops: what each computes in exact arithmetic, and the size of what its steps round.

A row has the exact form, stable in float64, and the *size* by which one rounding of a step of the usual evaluation in
the op's own steps moves the result. Where the size is far above the result (the *tail*), terms of that evaluation
cancel: an honest body is no better there, a good kernel is. Sizes are first-order error analyses of the bodies that
frameworks write (Higham, Accuracy and Stability of Numerical Algorithms, 3; Blanchard, Higham and Higham 2021, IMA J.
Numer. Anal. 41(4), for softmax), each tried on honest bodies and on wrong ones (docs/judge.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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


def _layer_norm(x: np.ndarray, *rest: np.ndarray, epsilon: float, normalized_shape: tuple[int, ...]) -> np.ndarray:
    axes = _axes(x, normalized_shape)
    centred = x - x.mean(axis=axes, keepdims=True)
    return _scaled(centred / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + epsilon), rest)


def _layer_norm_size(x: np.ndarray, *rest: np.ndarray, epsilon: float, normalized_shape: tuple[int, ...]) -> np.ndarray:
    axes = _axes(x, normalized_shape)
    mean = np.abs(x.mean(axis=axes, keepdims=True))
    centred = x - x.mean(axis=axes, keepdims=True)
    spread = np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + epsilon)
    weight, bias = (np.abs(each) for each in (*rest, 1.0, 0.0)[:2]) if len(rest) != 1 else (np.abs(rest[0]), 0.0)
    # A mean of values of both signs is off by what their root sum of squares is, however small it is.
    off = np.sqrt(np.square(x).mean(axis=axes, keepdims=True) / _last(x, normalized_shape=normalized_shape))
    return weight * (np.abs(x) + mean + off + np.abs(centred) * (1 + mean / spread)) / spread + bias


def _rms_norm(x: np.ndarray, *rest: np.ndarray, epsilon: float, normalized_shape: tuple[int, ...]) -> np.ndarray:
    axes = _axes(x, normalized_shape)
    return _scaled(x / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + epsilon), rest)


def _reduced(x: np.ndarray, axis: int | None, **_: Any) -> int:
    return x.size if axis is None else x.shape[axis]


def _sum_size(x: np.ndarray, axis: int | None) -> np.ndarray:
    return np.maximum(np.sqrt(np.square(x).sum(axis=axis)), np.abs(x.sum(axis=axis)))


def _var_size(x: np.ndarray, axis: int | None) -> np.ndarray:
    y, mean = x.var(axis=axis), x.mean(axis=axis)
    return y + np.abs(mean) * np.sqrt(y)


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
    x: np.ndarray, scale: np.ndarray, offset: np.ndarray, epsilon: float, feature_index: int
) -> list[np.ndarray]:
    axes = tuple(axis for axis in range(x.ndim) if axis != feature_index)
    mean, variance = x.mean(axis=axes), x.var(axis=axes)
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


def _no_floor(*_: Any, **__: Any) -> float:
    return SMALLEST


def _rows(
    exact: Any, size: Any, terms: Any, attributes: Mapping[str, Any], operands: tuple[int, ...] = (1,)
) -> Formula:
    """A formula that adds values up."""
    return Formula(exact, size, operands, attributes, _no_floor, terms, elementwise=False)


_NORM = {"epsilon": 1e-5, "normalized_shape": ()}
FORMULAS: dict[str, Formula] = {
    **POINTWISE,
    "softmax": _rows(_softmax, _softmax_size, _reduced, {"axis": -1}),
    "log_softmax": _rows(_log_softmax, _log_softmax_size, _reduced, {"axis": -1}),
    "layer_norm": _rows(_layer_norm, _layer_norm_size, _last, _NORM, (1, 2, 3)),
    "rms_norm": _rows(
        _rms_norm, lambda *x, **by: 2 * np.abs(_rms_norm(*x, **by)), _last, {**_NORM, "epsilon": 1e-6}, (1, 2)
    ),
    "sdpa": _rows(
        _sdpa, _sdpa_size, lambda q, k, *_, **__: q.shape[-1] + k.shape[-2], {"scale": None, "is_causal": False}, (3, 4)
    ),
    "sum": _rows(lambda x, axis: x.sum(axis=axis), _sum_size, _reduced, {"axis": None}),
    "mean": _rows(
        lambda x, axis: x.mean(axis=axis),
        lambda x, axis: _sum_size(x, axis) / _reduced(x, axis),
        _reduced,
        {"axis": None},
    ),
    "var": _rows(lambda x, axis: x.var(axis=axis), _var_size, _reduced, {"axis": None}),
    "batch_norm_training": _rows(
        _batch_norm_training, _batch_norm_size, _over_channels, {"epsilon": 1e-5, "feature_index": 1}, (3,)
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
    "tenstorrent.scaled_dot_product_attention": "sdpa",
    "odml.rms_norm": "rms_norm",
    "aten.hardswish.default": "hardswish",
    "aten.gelu.default": "gelu",
    "chlo.erf": "erf",
}
"""Name of a composite, as compilers and frameworks write it -> its formula."""
