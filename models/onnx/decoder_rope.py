"""A decoder after Llama 2 (Touvron et al. 2023) as an ONNX graph in operator set 23.

It uses the set's own Attention, RotaryEmbedding and RMSNormalization. Reduced: 4 layers of width 256, 64 tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.through_onnx.built import OnnxBuilt
    from opscope.models.onnx.graph import Graph

LAYERS, WIDTH, HEADS, INNER, VOCABULARY, TOKENS = 4, 256, 4, 688, 4096, 64
HEAD = WIDTH // HEADS


@model(name="decoder_rope_onnx", family="decoder", framework="onnx", size="reduced", trainable=False)
def build(dtype: str) -> OnnxBuilt:
    """Logits of each token, (1, 64, 4096); input and output embedding are one."""
    import numpy as np

    from opscope.models.onnx.graph import Graph

    g = Graph("decoder_rope", dtype, opset=23)
    ids = g.input("input_ids", (1, TOKENS), f"int:0:{VOCABULARY}", "int64")
    table = g.weight("embedding.weight", (VOCABULARY, WIDTH), "normal:0.05")
    x = g.op("Gather", table, ids, axis=0, name="embedding")
    angles = np.outer(np.arange(TOKENS), 10000.0 ** (-np.arange(HEAD // 2) / (HEAD // 2)))
    cache = [g.constant(f(angles)[None], "float") for f in (np.cos, np.sin)]
    for i in range(LAYERS):
        x = _layer(g, f"layer.{i}", x, cache)
    x = _norm(g, "norm", x)
    return g.finish(g.op("MatMul", x, g.op("Transpose", table, perm=[1, 0]), name="logits"))


def _norm(g: Graph, name: str, x: str) -> str:
    scale = g.weight(f"{name}.weight", (WIDTH,), "normal:1:0.1")
    return g.op("RMSNormalization", x, scale, axis=-1, epsilon=1e-5, name=name)


def _linear(g: Graph, name: str, x: str, inputs: int, outputs: int) -> str:
    weight = g.weight(f"{name}.weight", (inputs, outputs), f"normal:{inputs**-0.5:.6g}")
    return g.op("MatMul", x, weight, name=name)


def _layer(g: Graph, name: str, x: str, cache: list[str]) -> str:
    y = _norm(g, f"{name}.attention.norm", x)
    q, k, v = (
        g.op("Transpose", g.reshape(_linear(g, f"{name}.{p}", y, WIDTH, WIDTH), (0, 0, HEADS, HEAD)), perm=[0, 2, 1, 3])
        for p in "qkv"
    )
    q, k = (g.op("RotaryEmbedding", z, *cache, name=f"{name}.rope.{p}") for p, z in (("q", q), ("k", k)))
    mixed = g.op("Attention", q, k, v, is_causal=1, name=f"{name}.attention")
    mixed = g.reshape(g.op("Transpose", mixed, perm=[0, 2, 1, 3]), (0, 0, WIDTH))
    x = g.op("Add", x, _linear(g, f"{name}.o", mixed, WIDTH, WIDTH))
    y = _norm(g, f"{name}.mlp.norm", x)
    gate = _linear(g, f"{name}.gate", y, WIDTH, INNER)
    inner = g.op("Mul", g.op("Mul", gate, g.op("Sigmoid", gate)), _linear(g, f"{name}.up", y, WIDTH, INNER))
    return g.op("Add", x, _linear(g, f"{name}.down", inner, INNER, WIDTH))
