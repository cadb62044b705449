"""Softmax and normalisations."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from opscope.simulator.host.op.common import axis_of, op
from opscope.simulator.host.settings.options import stable_softmax


@op
def Softmax(name: str, operandA: Any, *, dim: int, stable: bool = True) -> Any:
    """Returns exp(A) / sum(exp(A)) along `dim`; `stable` subtracts the maximum first.

    It does so only where the option `enable_stable_softmax` is not false.
    """
    axis = axis_of(dim, operandA.ndim)
    e = jnp.exp(_shifted(operandA, axis, stable))
    return e / jnp.sum(e, axis=axis, keepdims=True)


@op
def LogSoftmax(name: str, operandA: Any, *, dim: int, stable: bool = True) -> Any:
    """Returns the logarithm of the softmax along `dim`."""
    axis = axis_of(dim, operandA.ndim)
    a = _shifted(operandA, axis, stable)
    return a - jnp.log(jnp.sum(jnp.exp(a), axis=axis, keepdims=True))


def _shifted(value: Any, axis: int, stable: bool) -> Any:
    return value - jnp.max(value, axis=axis, keepdims=True) if stable and stable_softmax() else value


@op
def Layernorm(
    name: str,
    operandA: Any,
    weights: Any,
    bias: Any,
    dim: int = -1,
    epsilon: float = 1e-05,
) -> Any:
    """Returns A with mean 0 and variance 1 along `dim`, times weights, plus bias."""
    axis = axis_of(dim, operandA.ndim)
    centred = operandA - jnp.mean(operandA, axis=axis, keepdims=True)
    variance = jnp.mean(centred * centred, axis=axis, keepdims=True)
    return centred * (1 / jnp.sqrt(variance + epsilon)) * weights + bias


@op
def Batchnorm(
    name: str,
    operandA: Any,
    weights: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    epsilon: float = 1e-05,
) -> Any:
    """Returns (A - mean) / sqrt(variance + epsilon) * weights + bias; all four are of shape (C,), A is (N, C, H, W)."""
    scale, shift, mean, variance = (v.reshape(-1, 1, 1) for v in (weights, bias, running_mean, running_var))
    return (operandA - mean) * (1 / jnp.sqrt(variance + epsilon)) * scale + shift
