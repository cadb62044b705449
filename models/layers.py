"""Layers in plain `jax.numpy`: each is a function of the named weights, beside the function that lists its arguments.

`w` maps argument names to arrays; a layer called `name` reads `name.weight`, `name.bias`, ... Each layer opens a scope
with its name, which the locations of its ops show. Imports jax, so import it inside a model's `build`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from opscope.models.arguments import ArgSpec

Weights = Mapping[str, jax.Array]


def dense_arguments(name: str, inputs: int, outputs: int, dtype: str, gain: float = 1.0) -> list[ArgSpec]:
    """Arguments of `dense`; the weight's deviation gain/sqrt(inputs) keeps the variance (Xavier, fan-in form)."""
    return [
        ArgSpec(f"{name}.weight", (inputs, outputs), dtype, f"normal:{gain / math.sqrt(inputs):.6g}"),
        ArgSpec(f"{name}.bias", (outputs,), dtype, "normal:0.02"),
    ]


def dense(w: Weights, name: str, x: jax.Array) -> jax.Array:
    """Affine map of the last axis: (..., inputs) -> (..., outputs)."""
    with jax.named_scope(name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def layer_norm_arguments(name: str, width: int, dtype: str) -> list[ArgSpec]:
    """Arguments of `layer_norm`, near its neutral values but not at them, so that leaving one out is noticed."""
    return [
        ArgSpec(f"{name}.weight", (width,), dtype, "normal:1:0.1"),
        ArgSpec(f"{name}.bias", (width,), dtype, "normal:0.05"),
    ]


def layer_norm(w: Weights, name: str, x: jax.Array, epsilon: float) -> jax.Array:
    """Layer normalisation over the last axis (Ba et al. 2016), biased variance."""
    with jax.named_scope(name):
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + epsilon) * w[f"{name}.weight"] + w[f"{name}.bias"]


def softmax(x: jax.Array) -> jax.Array:
    """Softmax over the last axis, shifted by the maximum."""
    with jax.named_scope("softmax"):
        powers = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
        return powers / jnp.sum(powers, axis=-1, keepdims=True)


def gelu_exact(x: jax.Array) -> jax.Array:
    """GELU by the error function (Hendrycks and Gimpel 2016, eq. 1)."""
    with jax.named_scope("gelu"):
        return 0.5 * x * (1 + jax.lax.erf(x * (1 / math.sqrt(2))))


def gelu_tanh(x: jax.Array) -> jax.Array:
    """GELU by its tanh approximation (Hendrycks and Gimpel 2016, section 2), as GPT-2 computes it."""
    with jax.named_scope("gelu"):
        return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))


def attention(q: jax.Array, k: jax.Array, v: jax.Array, heads: int, mask: jax.Array | None) -> jax.Array:
    """Multi-head attention (Vaswani et al. 2017) of (batch, tokens, width) projections; `mask` is added to scores."""
    batch, tokens, width = q.shape

    def split(x: jax.Array) -> jax.Array:
        return x.reshape(batch, tokens, heads, width // heads).transpose(0, 2, 1, 3)

    with jax.named_scope("attention"):
        scores = jnp.matmul(split(q), split(k).transpose(0, 1, 3, 2)) * (1 / math.sqrt(width // heads))
        weights = softmax(scores if mask is None else scores + mask)
        return jnp.matmul(weights, split(v)).transpose(0, 2, 1, 3).reshape(batch, tokens, width)


def linear_arguments(name: str, inputs: int, outputs: int, dtype: str, gain: float = 1.0) -> list[ArgSpec]:
    """The argument of `linear`: as `dense_arguments`, without bias."""
    return dense_arguments(name, inputs, outputs, dtype, gain)[:1]


def linear(w: Weights, name: str, x: jax.Array) -> jax.Array:
    """Linear map of the last axis, without bias: (..., inputs) -> (..., outputs)."""
    with jax.named_scope(name):
        return x @ w[f"{name}.weight"]


def rms_norm_arguments(name: str, width: int, dtype: str) -> list[ArgSpec]:
    """The argument of `rms_norm`, near its neutral value."""
    return layer_norm_arguments(name, width, dtype)[:1]


def rms_norm(w: Weights, name: str, x: jax.Array, epsilon: float) -> jax.Array:
    """Root-mean-square normalisation over the last axis (Zhang and Sennrich 2019)."""
    with jax.named_scope(name):
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + epsilon) * w[f"{name}.weight"]


def causal_mask(tokens: int, dtype: jnp.dtype) -> jax.Array:
    """The mask that is added to scores so that no token attends to a later one: 0 or -1e4, (tokens, tokens)."""
    with jax.named_scope("causal_mask"):
        rows, columns = (jax.lax.broadcasted_iota("int32", (tokens, tokens), d) for d in (0, 1))
        return jnp.where(columns <= rows, 0.0, -10000.0).astype(dtype)
