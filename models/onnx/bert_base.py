"""BERT-base, uncased (Devlin et al. 2018), as an ONNX graph: 128 tokens, 12 layers, 109,482,240 parameters.

Written as PyTorch's exporter writes it: heads by Reshape and Transpose, GELU by Erf, the mask as (1 - mask) * lowest.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.through_onnx.built import OnnxBuilt
    from opscope.models.onnx.graph import Graph

LAYERS, WIDTH, HEADS, INNER, VOCABULARY, TOKENS = 12, 768, 12, 3072, 30522, 128


@model(name="bert_base_onnx", family="encoder", framework="onnx", trainable=False)
def build(dtype: str) -> OnnxBuilt:
    """Encoder and pooler; returns hidden states, (1, 128, 768), and the pooled vector, (1, 768)."""
    from opscope.models.onnx.graph import Graph

    g = Graph("bert_base", dtype)
    ids = g.input("input_ids", (1, TOKENS), f"int:0:{VOCABULARY}", "int64")
    mask = g.input("attention_mask", (1, TOKENS), "int:0:2", "int64")
    kinds = g.input("token_type_ids", (1, TOKENS), "int:0:2", "int64")
    words = _table(g, "embeddings.word", VOCABULARY, ids)
    places = _table(g, "embeddings.position", 512, g.constant([list(range(TOKENS))]))
    x = g.op("Add", g.op("Add", words, _table(g, "embeddings.token_type", 2, kinds)), places)
    x = g.layer_norm("embeddings.norm", x, WIDTH)
    kept = g.op("Cast", g.op("Unsqueeze", mask, g.constant([1, 2])), to=_element(g))
    bias = g.op("Mul", g.op("Sub", g.constant(1.0, "float"), kept), g.constant(-10000.0, "float"), name="mask")
    for i in range(LAYERS):
        x = _layer(g, f"layer.{i}", x, bias)
    first = g.op("Gather", x, g.constant(0), axis=1, name="first_token")
    return g.finish(x, g.op("Tanh", g.dense("pooler", first, WIDTH, WIDTH)))


def _element(g: Graph) -> int:
    from opscope.models.onnx.graph import ELEMENT

    return ELEMENT[g.dtype]


def _table(g: Graph, name: str, rows: int, ids: str) -> str:
    return g.op("Gather", g.weight(f"{name}.weight", (rows, WIDTH), "normal:0.02"), ids, axis=0, name=name)


def _heads(g: Graph, x: str, perm: tuple[int, ...]) -> str:
    return g.op("Transpose", g.reshape(x, (0, 0, HEADS, WIDTH // HEADS)), perm=list(perm))


def _layer(g: Graph, name: str, x: str, bias: str) -> str:
    q = _heads(g, g.dense(f"{name}.query", x, WIDTH, WIDTH), (0, 2, 1, 3))
    k = _heads(g, g.dense(f"{name}.key", x, WIDTH, WIDTH), (0, 2, 3, 1))
    v = _heads(g, g.dense(f"{name}.value", x, WIDTH, WIDTH), (0, 2, 1, 3))
    scores = g.op("Div", g.op("MatMul", q, k, name=f"{name}.scores"), g.constant(math.sqrt(WIDTH // HEADS), "float"))
    weights = g.op("Softmax", g.op("Add", scores, bias), axis=-1, name=f"{name}.softmax")
    mixed = g.op("Transpose", g.op("MatMul", weights, v, name=f"{name}.mix"), perm=[0, 2, 1, 3])
    y = g.dense(f"{name}.attention.output", g.reshape(mixed, (0, 0, WIDTH)), WIDTH, WIDTH)
    x = g.layer_norm(f"{name}.attention.norm", g.op("Add", y, x), WIDTH)
    inner = g.dense(f"{name}.intermediate", x, WIDTH, INNER)
    one = g.op("Add", g.op("Erf", g.op("Div", inner, g.constant(math.sqrt(2), "float"))), g.constant(1.0, "float"))
    gelu = g.op("Mul", g.op("Mul", inner, one), g.constant(0.5, "float"), name=f"{name}.gelu")
    return g.layer_norm(f"{name}.norm", g.op("Add", g.dense(f"{name}.output", gelu, INNER, WIDTH), x), WIDTH)
