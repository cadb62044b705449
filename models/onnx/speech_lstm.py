"""A speech recogniser after Deep Speech 2 (Amodei et al. 2015) as an ONNX graph: convolutions, LSTM and GRU, CTC head.

Reduced: 64 frames of 80 mel bands, one bidirectional LSTM of 64, one GRU of 96, 29 characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opscope.models.registry import model

if TYPE_CHECKING:
    from opscope.models.frontends.through_onnx.built import OnnxBuilt
    from opscope.models.onnx.graph import Graph

FRAMES, BANDS, HIDDEN, STATE, CHARACTERS = 64, 80, 64, 96, 29


@model(name="speech_lstm_onnx", family="audio", framework="onnx", size="reduced", trainable=False)
def build(dtype: str) -> OnnxBuilt:
    """Log probabilities of characters, (16, 1, 29): one per four frames."""
    from opscope.models.onnx.graph import Graph

    g = Graph("speech_lstm", dtype)
    x = g.input("mel", (1, 1, FRAMES, BANDS))
    x = _clipped(g, g.conv("conv1", x, (8, 1, 11, 11), strides=[2, 2], pads=[5, 5, 5, 5]))
    x = _clipped(g, g.conv("conv2", x, (8, 8, 11, 11), strides=[2, 2], pads=[5, 5, 5, 5]))
    frames, width = FRAMES // 4, 8 * BANDS // 4
    # (batch, channels, frames, bands) to (frames, batch, features): ONNX's layout of sequences.
    x = g.reshape(g.op("Transpose", x, perm=[2, 0, 1, 3]), (frames, 1, width))
    both = g.ops(
        "LSTM",
        x,
        *_weights(g, "lstm", 2, 4, width, HIDDEN),
        results=3,
        hidden_size=HIDDEN,
        direction="bidirectional",
        name="lstm",
    )[0]
    x = g.reshape(g.op("Transpose", both, perm=[0, 2, 1, 3]), (frames, 1, 2 * HIDDEN))
    x = g.ops(
        "GRU",
        x,
        *_weights(g, "gru", 1, 3, 2 * HIDDEN, STATE),
        results=2,
        hidden_size=STATE,
        linear_before_reset=1,
        name="gru",
    )[0]
    x = g.layer_norm("norm", g.op("Squeeze", x, g.constant([1])), STATE, 1e-5)
    return g.finish(g.op("LogSoftmax", g.dense("characters", x, STATE, CHARACTERS), axis=-1))


def _clipped(g: Graph, x: str) -> str:
    return g.op("Clip", x, g.constant(0.0, "float"), g.constant(20.0, "float"))


def _weights(g: Graph, name: str, directions: int, gates: int, inputs: int, hidden: int) -> list[str]:
    """Weights of the input, of the state, and both biases, of all directions."""
    distribution = f"uniform:{-(hidden**-0.5):.6g}:{hidden**-0.5:.6g}"
    return [
        g.weight(f"{name}.weight", (directions, gates * hidden, inputs), distribution),
        g.weight(f"{name}.recurrence", (directions, gates * hidden, hidden), distribution),
        g.weight(f"{name}.bias", (directions, 2 * gates * hidden), distribution),
    ]
