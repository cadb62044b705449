"""A text classifier of Keras' own layers: embeddings, a transformer block, a bidirectional LSTM, attention pooling.

Reduced: 80 tokens of a vocabulary of 5,000, width 64.
"""

from __future__ import annotations

from typing import Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

VOCABULARY, TOKENS, WIDTH, HEADS, CLASSES = 5000, 80, 64, 4, 20


@model(name="text_transformer_keras", family="encoder", framework="keras", size="reduced")
def build(dtype: str) -> Built:
    """Class scores of two texts, (2, 20)."""
    from opscope.models.frontends.keras import functional

    text = ArgSpec("ids", (2, TOKENS), "int32", f"int:0:{VOCABULARY}", "input")
    # Pooling over many tokens leaves little variance: the last layer makes up for it.
    return functional(_classifier, [text], [("classes/kernel", "normal:1")])


def _classifier() -> Any:
    import keras
    from keras import layers

    ids = layers.Input((TOKENS,), dtype="int32", name="ids")
    x = layers.Embedding(VOCABULARY, WIDTH, name="words")(ids)
    mixed = layers.MultiHeadAttention(HEADS, WIDTH // HEADS, name="attention")(x, x)
    x = layers.LayerNormalization(name="norm1")(x + mixed)
    inner = layers.Dense(4 * WIDTH, activation="gelu", name="inner")(x)
    x = layers.LayerNormalization(name="norm2")(x + layers.Dense(WIDTH, name="outer")(inner))
    x = layers.Bidirectional(layers.LSTM(WIDTH // 2, return_sequences=True), name="lstm")(x)
    weights = layers.Softmax(axis=1, name="importance")(layers.Dense(1, name="score")(x))
    pooled = keras.ops.sum(x * weights, axis=1)
    scores = layers.Dense(CLASSES, name="classes")(pooled)
    return keras.Model(ids, scores)
