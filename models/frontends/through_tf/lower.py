"""A TensorFlow function as StableHLO: arguments first, then what it captured."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from opscope.models.arguments import ArgSpec
from opscope.models.frontends.through_tf import python_calls
from opscope.models.frontends.through_tf.built import TfBuilt


def lower(built: TfBuilt, name: str) -> tuple[bytes, TfBuilt]:
    """(bytecode, the function that it is of): captured variables and constants become further arguments, with their
    values, and so do results of Python functions (python_calls.py).

    Raises what TensorFlow raises where an op has no XLA kernel.
    """

    def entry(*tensors: Any) -> Any:
        return built.function(*tensors)

    entry.__name__ = entry.__qualname__ = name.replace(":", "_").replace("+", "_")
    specs = signature(built)
    function = tf.function(entry, jit_compile=True, input_signature=specs, autograph=False)
    concrete: Any = function.get_concrete_function()
    if python_calls.in_graph(concrete.graph):
        return lower(python_calls.settled(built, concrete, {}), name)
    bytecode = function.experimental_get_compiler_ir(*specs)(stage="stablehlo_serialized")
    arguments, values = list(built.arguments), dict(built.values)
    for label, variable, value in captured(concrete.graph, built):
        role = "parameter" if variable is None or variable.trainable else "state"
        arguments.append(ArgSpec(label, value.shape, value.dtype.name, "", role))
        values[label] = value
    return bytecode, replace(built, arguments=tuple(arguments), values=values)


def signature(built: TfBuilt) -> list[Any]:
    """The types of the function's own arguments."""
    return [tf.TensorSpec(s.shape, _dtype(s.dtype), f"argument{i}") for i, s in enumerate(built.arguments)]


def captured(graph: Any, built: TfBuilt) -> list[tuple[str, Any, np.ndarray]]:
    """Name as an argument, variable (None for a constant) and value of all that a traced function captured."""
    taken = {spec.name for spec in built.arguments}
    variables, captures = {id(v.handle): v for v in graph.variables}, []
    for tensor, _ in graph.captures:
        variable = variables.get(id(tensor))
        label = _fresh(variable.name.removesuffix(":0") if variable is not None else "constant", taken)
        taken.add(label)
        captures.append((label, variable, variable.numpy() if variable is not None else tensor.numpy()))
    return captures


def _dtype(name: str) -> Any:
    return tf.dtypes.as_dtype(name)


def _fresh(name: str, taken: Collection[str]) -> str:
    """`name`, or with a number where an argument has it already."""
    return next(word for word in (name, *(f"{name}_{i}" for i in range(2, len(taken) + 3))) if word not in taken)
