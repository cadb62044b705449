"""A sparse mixture of experts (Mixtral, Jiang et al. 2024): 8 experts, 2 per token; 4 of 32 layers, width 256."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

if TYPE_CHECKING:
    import jax

VOCABULARY, SEQUENCE = 4096, 32
WIDTH, LAYERS, HEADS, GROUPS, INNER = 256, 4, 8, 2, 512
EXPERTS, CHOSEN = 8, 2
EPSILON = 1e-5


# Experts over axis `model`, heads as in Megatron's layers where they are as many.
@model(
    name="moe_decoder",
    family="mixture_of_experts",
    size="reduced",
    shardings={
        r"layer\d+\.(gate|up|down)\.weight": "model",
        r"layer\d+\.q\.weight": ",model",
        r"layer\d+\.o\.weight": "model",
    },
)
def build(dtype: str) -> Built:
    """The decoder of one sequence; returns the logits of the next token, (1, SEQUENCE, VOCABULARY)."""
    import jax
    import jax.numpy as jnp

    from opscope.models.layers import causal_mask, linear, linear_arguments, rms_norm, rms_norm_arguments, softmax
    from opscope.models.rotary import grouped_attention, grouped_attention_arguments

    residual = 1 / math.sqrt(2 * LAYERS)
    keys = WIDTH // HEADS * GROUPS
    specs = [ArgSpec("embedding", (VOCABULARY, WIDTH), dtype, "normal:0.1")]
    for i in range(LAYERS):
        specs += rms_norm_arguments(f"layer{i}.norm1", WIDTH, dtype)
        specs += grouped_attention_arguments(f"layer{i}", WIDTH, keys, dtype, residual)
        specs += rms_norm_arguments(f"layer{i}.norm2", WIDTH, dtype)
        specs += linear_arguments(f"layer{i}.router", WIDTH, EXPERTS, dtype)
        for name, inputs, outputs in (("gate", WIDTH, INNER), ("up", WIDTH, INNER), ("down", INNER, WIDTH)):
            distribution = f"normal:{1 / math.sqrt(inputs):.6g}"
            specs.append(ArgSpec(f"layer{i}.{name}.weight", (EXPERTS, inputs, outputs), dtype, distribution))
    specs += rms_norm_arguments("norm", WIDTH, dtype)
    specs.append(ArgSpec("input_ids", (1, SEQUENCE), "int32", f"int:0:{VOCABULARY}", "input"))

    def experts(w: Mapping[str, Any], name: str, x: jax.Array) -> jax.Array:
        """Every expert on every token, weighted by the router: what is not chosen has weight zero."""
        with jax.named_scope(f"{name}.experts"):
            best, which = jax.lax.top_k(linear(w, f"{name}.router", x), CHOSEN)
            chosen = jax.nn.one_hot(which, EXPERTS, dtype=x.dtype)
            shares = jnp.einsum("btk,btke->bte", softmax(best), chosen)
            gate = jax.nn.silu(jnp.einsum("btd,edf->btef", x, w[f"{name}.gate.weight"]))
            up = jnp.einsum("btd,edf->btef", x, w[f"{name}.up.weight"])
            down = jnp.einsum("btef,efd->bted", gate * up, w[f"{name}.down.weight"])
            return jnp.sum(down * shares[..., None], axis=2)

    def forward(w: Mapping[str, Any]) -> jax.Array:
        x = w["embedding"][w["input_ids"]]
        mask = causal_mask(SEQUENCE, x.dtype)
        for i in range(LAYERS):
            name = f"layer{i}"
            y = rms_norm(w, f"{name}.norm1", x, EPSILON)
            q, k, v = (linear(w, f"{name}.{part}", y) for part in "qkv")
            x = x + linear(w, f"{name}.o", grouped_attention(q, k, v, HEADS, GROUPS, mask))
            x = x + experts(w, name, rms_norm(w, f"{name}.norm2", x, EPSILON))
        x = rms_norm(w, "norm", x, EPSILON)
        with jax.named_scope("logits"):
            return x @ w["embedding"].T

    return Built(forward, tuple(specs))
