"""Keyword spotting with the front end inside: short-time Fourier transform, mel bands, convolutions, the best three.

After Warden 2018 (Speech Commands). Reduced: half a second at 8 kHz, 32 mel bands, 12 words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opscope.models.arguments import ArgSpec, Built
from opscope.models.registry import model

RATE, SAMPLES, FRAME, STEP, BANDS, WORDS, WIDTH = 8000, 4000, 256, 128, 32, 12, 48


@model(name="keyword_spotting_tf", family="audio", framework="tf", size="reduced", trainable=False)
def build(dtype: str) -> Built:
    """Scores and numbers of the three most likely words, (1, 3) each."""
    import tensorflow as tf

    def forward(w: Mapping[str, Any]) -> Any:
        # The transform has no narrower type than float32.
        wave = tf.cast(w["wave"], tf.float32)
        power = tf.square(tf.abs(tf.signal.stft(wave, FRAME, STEP)))
        mel = tf.signal.linear_to_mel_weight_matrix(BANDS, FRAME // 2 + 1, RATE, 60.0, RATE / 2 - 200.0)
        x = tf.cast(tf.math.log(tf.tensordot(power, mel, 1) + 1e-3), w["wave"].dtype)[..., None]
        for name, stride in (("conv1", 2), ("conv2", 2), ("conv3", 1)):
            with tf.name_scope(name):
                x = tf.nn.elu(tf.nn.conv2d(x, w[f"{name}.kernel"], stride, "SAME") + w[f"{name}.bias"])
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        scores = tf.matmul(tf.reshape(x, (1, -1)), w["words.kernel"]) + w["words.bias"]
        return tf.math.top_k(tf.nn.log_softmax(scores), 3)

    arguments, channels = [], 1
    for name in ("conv1", "conv2", "conv3"):
        arguments.append(
            ArgSpec(f"{name}.kernel", (3, 3, channels, WIDTH), dtype, f"normal:{(9 * channels) ** -0.5:.6g}")
        )
        arguments.append(ArgSpec(f"{name}.bias", (WIDTH,), dtype, "normal:0.1"))
        channels = WIDTH
    features = WIDTH * 4 * 4
    arguments += [
        ArgSpec("words.kernel", (features, WORDS), dtype, f"normal:{features**-0.5:.6g}"),
        ArgSpec("words.bias", (WORDS,), dtype, "normal:0.02"),
        ArgSpec("wave", (1, SAMPLES), dtype, "normal:0.3", "input"),
    ]
    return Built(forward, tuple(arguments))
