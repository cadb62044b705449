"""BERT-base, uncased (Devlin et al. 2018), sequence 128, with pooler: 109,482,240 parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from models.arguments import ArgSpec, Built
from models.registry import model

if TYPE_CHECKING:
    import jax

VOCABULARY, POSITIONS, TYPES = 30522, 512, 2
WIDTH, LAYERS, HEADS, INNER = 768, 12, 12, 3072
SEQUENCE = 128
EPSILON = 1e-12


@model(name="bert_base", family="encoder")
def build(dtype: str) -> Built:
    """The encoder of one sequence; returns the last hidden state, (1, 128, 768), and the pooled output, (1, 768)."""
    import jax
    import jax.numpy as jnp

    from models.layers import attention, dense, dense_arguments, gelu_exact, layer_norm, layer_norm_arguments

    specs = [
        ArgSpec("embeddings.word", (VOCABULARY, WIDTH), dtype, "normal:0.5"),
        ArgSpec("embeddings.position", (POSITIONS, WIDTH), dtype, "normal:0.3"),
        ArgSpec("embeddings.type", (TYPES, WIDTH), dtype, "normal:0.3"),
        *layer_norm_arguments("embeddings.norm", WIDTH, dtype),
    ]
    for i in range(LAYERS):
        for part in ("query", "key", "value", "output"):
            specs += dense_arguments(f"layer{i}.attention.{part}", WIDTH, WIDTH, dtype)
        specs += layer_norm_arguments(f"layer{i}.attention.norm", WIDTH, dtype)
        specs += dense_arguments(f"layer{i}.intermediate", WIDTH, INNER, dtype)
        specs += dense_arguments(f"layer{i}.output", INNER, WIDTH, dtype)
        specs += layer_norm_arguments(f"layer{i}.output.norm", WIDTH, dtype)
    specs += dense_arguments("pooler", WIDTH, WIDTH, dtype)
    specs += [
        ArgSpec("input_ids", (1, SEQUENCE), "int32", f"int:0:{VOCABULARY}", "input"),
        ArgSpec("token_type_ids", (1, SEQUENCE), "int32", f"int:0:{TYPES}", "input"),
        ArgSpec("attention_mask", (1, SEQUENCE), "int32", "int:0:2", "input"),
    ]

    def embed(w: Mapping[str, Any]) -> jax.Array:
        with jax.named_scope("embeddings"):
            words = w["embeddings.word"][w["input_ids"]]
            kinds = w["embeddings.type"][w["token_type_ids"]]
            x = words + kinds + w["embeddings.position"][:SEQUENCE]
            return layer_norm(w, "embeddings.norm", x, EPSILON)

    def layer(w: Mapping[str, Any], name: str, x: jax.Array, mask: jax.Array) -> jax.Array:
        q, k, v = (dense(w, f"{name}.attention.{part}", x) for part in ("query", "key", "value"))
        attended = dense(w, f"{name}.attention.output", attention(q, k, v, HEADS, mask))
        x = layer_norm(w, f"{name}.attention.norm", x + attended, EPSILON)
        inner = gelu_exact(dense(w, f"{name}.intermediate", x))
        return layer_norm(w, f"{name}.output.norm", x + dense(w, f"{name}.output", inner), EPSILON)

    def forward(w: Mapping[str, Any]) -> tuple[jax.Array, jax.Array]:
        x = embed(w)
        with jax.named_scope("mask"):
            # Masked tokens lose 10000 on every score, as in the published implementation.
            mask = (1 - w["attention_mask"][:, None, None, :].astype(x.dtype)) * -10000.0
        for i in range(LAYERS):
            x = layer(w, f"layer{i}", x, mask)
        return x, jnp.tanh(dense(w, "pooler", x[:, 0]))

    return Built(forward, tuple(specs))
