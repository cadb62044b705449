"""TFLite files out of TensorFlow functions, as floats or as integers of eight bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from opscope.models.seeding import draw

SAMPLES = 8
"""Inputs that the ranges of a quantised model are measured on."""


def weight(shape: Sequence[int], distribution: str, index: int) -> np.ndarray:
    """A weight of the file: float32, seed 0."""
    return draw(distribution, shape, "float32", 0, index)


def convert(function: Callable[[Any], Any], shape: Sequence[int], *, integers: bool = False) -> bytes:
    """The TFLite file of a function of one float32 tensor; `integers`: all inside in int8, floats at both ends."""
    import tensorflow as tf

    spec = tf.TensorSpec(shape, tf.float32, "input")
    concrete = tf.function(function, input_signature=[spec]).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])

    def samples() -> Iterator[list[np.ndarray]]:
        for index in range(SAMPLES):
            yield [draw("normal:1", shape, "float32", 1, index)]

    if integers:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = samples
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    return converter.convert()
