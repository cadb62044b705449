"""BERT-small (Turc et al. 2019: 4 layers of width 512) in TensorFlow's ops, 128 tokens, 28,763,648 parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

LAYERS, WIDTH, HEADS, INNER, VOCABULARY, TOKENS = 4, 512, 8, 2048, 30522, 128


def _dense(name: str, inputs: int, outputs: int, dtype: str) -> list[ArgSpec]:
    distribution = f"normal:{1 / math.sqrt(inputs):.6g}"
    return [
        ArgSpec(f"{name}.kernel", (inputs, outputs), dtype, distribution),
        ArgSpec(f"{name}.bias", (outputs,), dtype, "normal:0.02"),
    ]


def _norm(name: str, dtype: str) -> list[ArgSpec]:
    return [
        ArgSpec(f"{name}.gamma", (WIDTH,), dtype, "normal:1:0.1"),
        ArgSpec(f"{name}.beta", (WIDTH,), dtype, "normal:0.05"),
    ]


def _arguments(dtype: str) -> list[ArgSpec]:
    rows = {"words": VOCABULARY, "positions": 512, "segments": 2}
    specs = [ArgSpec(f"embeddings.{name}", (count, WIDTH), dtype, "normal:0.02") for name, count in rows.items()]
    specs += _norm("embeddings.norm", dtype)
    for i in range(LAYERS):
        for part in ("query", "key", "value", "output"):
            specs += _dense(f"layer{i}.{part}", WIDTH, WIDTH, dtype)
        specs += [*_norm(f"layer{i}.norm1", dtype), *_dense(f"layer{i}.inner", WIDTH, INNER, dtype)]
        specs += [*_dense(f"layer{i}.outer", INNER, WIDTH, dtype), *_norm(f"layer{i}.norm2", dtype)]
    specs += _dense("pooler", WIDTH, WIDTH, dtype)
    return [
        *specs,
        ArgSpec("ids", (1, TOKENS), "int32", f"int:0:{VOCABULARY}", "input"),
        ArgSpec("segments", (1, TOKENS), "int32", "int:0:2", "input"),
        ArgSpec("mask", (1, TOKENS), "int32", "int:0:2", "input"),
    ]


@model(name="bert_small_tf", family="encoder", framework="tf", trainable=False)
def build(dtype: str) -> Built:
    """Encoder and pooler; returns hidden states, (1, 128, 512), and the pooled vector, (1, 512)."""
    import tensorflow as tf

    def dense(w: Mapping[str, Any], name: str, x: Any) -> Any:
        with tf.name_scope(name):
            return tf.einsum("btc,cd->btd", x, w[f"{name}.kernel"]) + w[f"{name}.bias"]

    def norm(w: Mapping[str, Any], name: str, x: Any) -> Any:
        with tf.name_scope(name):
            mean, variance = tf.nn.moments(x, -1, keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, w[f"{name}.beta"], w[f"{name}.gamma"], 1e-12)

    def layer(w: Mapping[str, Any], name: str, x: Any, bias: Any) -> Any:
        heads = (1, TOKENS, HEADS, WIDTH // HEADS)
        q, k, v = (tf.reshape(dense(w, f"{name}.{part}", x), heads) for part in ("query", "key", "value"))
        scores = tf.einsum("bthd,bshd->bhts", q, k) * (WIDTH // HEADS) ** -0.5
        mixed = tf.einsum("bhts,bshd->bthd", tf.nn.softmax(scores + bias), v)
        x = norm(w, f"{name}.norm1", x + dense(w, f"{name}.output", tf.reshape(mixed, (1, TOKENS, WIDTH))))
        inner = tf.nn.gelu(dense(w, f"{name}.inner", x))
        return norm(w, f"{name}.norm2", x + dense(w, f"{name}.outer", inner))

    def forward(w: Mapping[str, Any]) -> Any:
        x = tf.gather(w["embeddings.words"], w["ids"]) + tf.gather(w["embeddings.segments"], w["segments"])
        x = norm(w, "embeddings.norm", x + w["embeddings.positions"][:TOKENS])
        bias = (1 - tf.cast(w["mask"], x.dtype))[:, None, None, :] * -10000.0
        for i in range(LAYERS):
            x = layer(w, f"layer{i}", x, bias)
        return x, tf.tanh(dense(w, "pooler", x[:, :1]))[:, 0]

    return Built(forward, tuple(_arguments(dtype)))
