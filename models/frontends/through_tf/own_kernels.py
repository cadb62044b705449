"""A TensorFlow function on TensorFlow's own kernels, without XLA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from opscope.models.frontends.base import NoOwnResults
from opscope.models.frontends.through_tf import python_calls
from opscope.models.frontends.through_tf.built import TfBuilt
from opscope.models.frontends.through_tf.lower import captured, signature


def results(built: TfBuilt, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The function's results on `values`, those of the variables that it captured among them.

    Raises NoOwnResults where a constant inside the function has another value.
    """

    def entry(*tensors: Any) -> Any:
        return built.function(*tensors)

    function = tf.function(entry, input_signature=signature(built), autograph=False).get_concrete_function()
    if python_calls.in_graph(function.graph):
        return results(python_calls.settled(built, function, values), values)
    for label, variable, current in captured(function.graph, built):
        wanted = values.get(label, current)
        if variable is not None:
            variable.assign(wanted)
        elif not np.array_equal(wanted, current):
            raise NoOwnResults(f"{label} is a constant of the function and has another value here")
    outputs = function(*(tf.constant(values[spec.name]) for spec in built.arguments))
    return [np.asarray(tensor) for tensor in tf.nest.flatten(outputs)]
