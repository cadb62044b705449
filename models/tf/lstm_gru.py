"""A forecaster of an LSTM and a GRU under tf.while_loop, as TensorFlow's own layers unroll at run time.

Reduced: 24 steps of 7 series, a batch of 8, 64 and 48 units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

BATCH, STEPS, SERIES, LSTM, GRU, AHEAD = 8, 24, 7, 64, 48, 6


def _cell(name: str, gates: int, inputs: int, units: int, dtype: str) -> list[ArgSpec]:
    distribution = f"uniform:{-(units**-0.5):.6g}:{units**-0.5:.6g}"
    shapes = {"kernel": (inputs, gates * units), "recurrent": (units, gates * units), "bias": (gates * units,)}
    return [ArgSpec(f"{name}.{part}", shape, dtype, distribution) for part, shape in shapes.items()]


@model(name="lstm_gru_tf", family="time_series", framework="tf", size="reduced", trainable=False)
def build(dtype: str) -> Built:
    """The next 6 values of each series, (8, 6, 7)."""
    import tensorflow as tf

    def unrolled(step: Callable[[Any, Any], Any], x: Any, state: tuple[Any, ...]) -> Any:
        """Outputs of all steps, (steps, batch, units); the first part of the state is the output."""
        kind = x.dtype
        outputs = tf.TensorArray(kind, STEPS, element_shape=state[0].shape)

        def body(t: Any, state: Any, outputs: Any) -> Any:
            state = step(x[t], state)
            return t + 1, state, outputs.write(t, state[0])

        start = (tf.constant(0), state, outputs)
        return tf.while_loop(lambda t, *_: t < STEPS, body, start, maximum_iterations=STEPS)[2].stack()

    def forward(w: Mapping[str, Any]) -> Any:
        x = tf.transpose(w["series"], (1, 0, 2))

        def lstm(x: Any, state: Any) -> Any:
            h, c = state
            gates = tf.matmul(x, w["lstm.kernel"]) + tf.matmul(h, w["lstm.recurrent"]) + w["lstm.bias"]
            i, f, g, o = tf.split(gates, 4, -1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            return tf.sigmoid(o) * tf.tanh(c), c

        def gru(x: Any, state: Any) -> Any:
            (h,) = state
            a = tf.split(tf.matmul(x, w["gru.kernel"]) + w["gru.bias"], 3, -1)
            b = tf.split(tf.matmul(h, w["gru.recurrent"]), 3, -1)
            z, r = tf.sigmoid(a[0] + b[0]), tf.sigmoid(a[1] + b[1])
            return (z * h + (1 - z) * tf.tanh(a[2] + r * b[2]),)

        with tf.name_scope("lstm"):
            zeros = tf.zeros((BATCH, LSTM), x.dtype)
            x = unrolled(lstm, x, (zeros, zeros))
        with tf.name_scope("gru"):
            x = unrolled(gru, x, (tf.zeros((BATCH, GRU), x.dtype),))
        with tf.name_scope("ahead"):
            return tf.reshape(tf.matmul(x[-1], w["ahead.kernel"]), (BATCH, AHEAD, SERIES)) + w["series"][:, -1:]

    arguments = [
        *_cell("lstm", 4, SERIES, LSTM, dtype),
        *_cell("gru", 3, LSTM, GRU, dtype),
        ArgSpec("ahead.kernel", (GRU, AHEAD * SERIES), dtype, f"normal:{GRU**-0.5:.6g}"),
        ArgSpec("series", (BATCH, STEPS, SERIES), dtype, "normal:1", "input"),
    ]
    return Built(forward, tuple(arguments))
