"""Calls of Python in a TensorFlow graph (`tf.numpy_function`, `tf.py_function`): their results become arguments.

Such a function lives in the process that traced it. Where that is this one, it runs once, on the model's own
values; a SavedModel's is in no file, and what it gives is drawn as inputs are. What only shows something
(`tf.print`) is left out. XLA has kernels for neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import wrap_function
from tensorflow.python.framework import convert_to_constants
from tensorflow.python.ops import script_ops

from opscope.base.visible_text import counted
from opscope.models.arguments import ArgSpec
from opscope.models.frontends.base import Refused
from opscope.models.frontends.through_tf.built import TfBuilt
from opscope.models.seeding import draw, dtype_of

CALLS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
SHOWS = "PrintV2"
WHERE = "tf.numpy_function, tf.py_function"
NEW = "_that_shows_nothing"
PREFIX = "python."
"""Result 1 of call 0 is the argument `python.0.1`."""


def in_graph(graph: Any) -> bool:
    """Whether a traced function calls Python or prints, itself or in a function that it calls."""
    return any(node.op in CALLS or node.op == SHOWS for node in _nodes(graph.as_graph_def()))


def settled(built: TfBuilt, traced: Any, values: Mapping[str, np.ndarray]) -> TfBuilt:
    """The model that `traced` is a concrete function of, without calls of Python, with their results as arguments.

    `values` are those that arguments have; results without one are computed, if their function is in this process.
    Raises Refused for a call within a loop or a branch, and for a result of unknown shape; else what Python raises.
    """
    graph = convert_to_constants._run_inline_graph_optimization(traced, False, True)
    if shown := _show_nothing(graph):
        _rename_functions(graph)
    if any(node.op in CALLS for function in graph.library.function for node in function.node_def):
        raise Refused(WHERE, "a call that is made once", "one in a loop or a branch", "TensorFlow's own ops there")
    whole = wrap_function.function_from_graph_def(
        graph, [tensor.name for tensor in traced.graph.inputs], [tensor.name for tensor in traced.graph.outputs]
    )
    calls = [op for op in whole.graph.get_operations() if op.type in CALLS]
    results = {f"{PREFIX}{n}.{i}": tensor for n, op in enumerate(calls) for i, tensor in enumerate(op.outputs)}
    held = [handle for handle, _ in traced.graph.captures]
    given = {name: values[name] for name in results if name in values}
    living = all(op.get_attr("token").decode() in _living() for op in calls)
    if calls and not given and living and (arrays := _arrays(built, values)):
        made = whole.prune(whole.inputs, list(results.values()))(*map(tf.constant, arrays), *held)
        given = {name: array.numpy() for name, array in zip(results, made, strict=True)}
    rest = whole.prune([*whole.inputs, *results.values()], whole.outputs)
    inputs, variables = len(built.arguments), traced.graph.variables

    def call(*tensors: Any) -> Any:
        for variable in variables:  # by its handle alone, none is known for a variable
            tf.compat.v1.get_default_graph().watch_variable(variable)
        return rest(*tensors[:inputs], *held, *tensors[inputs:])

    return replace(
        built,
        function=call,
        arguments=(*built.arguments, *(_spec(name, tensor, given.get(name)) for name, tensor in results.items())),
        values={**built.values, **given},
        alive=(built.alive, traced),
        notes=tuple(_notes(calls, bool(given), shown)),
    )


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _show_nothing(graph: Any) -> int:
    """Makes what gives nothing back, and the text that it prints, nodes that do nothing; how many there are."""
    shown = [n for n in _nodes(graph) if n.op == SHOWS or (n.op in CALLS and not n.attr["Tout"].list.type)]
    texts = {source.partition(":")[0] for node in shown for source in node.input}
    for node in (*shown, *(node for node in _nodes(graph) if node.op == "StringFormat" and node.name in texts)):
        name, order = node.name, [source for source in node.input if source.startswith("^")]
        node.Clear()
        node.name, node.op = name, "NoOp"
        node.input.extend(order)
    return len(shown)


def _rename_functions(graph: Any) -> None:
    """Gives the functions of a graph names of their own: TensorFlow knows those that they had for the ones before."""
    for function in graph.library.function:
        function.signature.name += NEW
    names = {function.signature.name for function in graph.library.function}
    for node in _nodes(graph):
        for attribute in node.attr.values():
            for function in (attribute.func, *attribute.list.func):
                if function.name + NEW in names:
                    function.name += NEW


def _living() -> Collection[str]:
    """The tokens of the Python functions that this process has."""
    return script_ops._py_funcs._funcs


def _arrays(built: TfBuilt, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """A value for each argument, its own or drawn by its law; none at all if one has neither."""
    known = {**built.values, **values}
    if any(spec.name not in known and not spec.law for spec in built.arguments):
        return []
    return [
        known[spec.name] if spec.name in known else draw(spec.law, spec.shape, dtype_of(spec.dtype), 0, index)
        for index, spec in enumerate(built.arguments)
    ]


def _spec(name: str, tensor: Any, value: np.ndarray | None) -> ArgSpec:
    """A result of a call as an argument: of the shape that it has, or that who reads it asks for."""
    if value is not None:
        return ArgSpec(name, value.shape, value.dtype.name, "", "input")
    readers = (op.outputs[0].shape for op in tensor.consumers() if op.type in ("EnsureShape", "Reshape"))
    shape = next((shape for shape in (tensor.shape, *readers) if shape.is_fully_defined()), None)
    if shape is None:
        raise Refused(WHERE, "a result of known shape", f"one of {tensor.shape}", "tf.ensure_shape(result, shape)")
    return ArgSpec(name, tuple(shape), tensor.dtype.name, "", "input")


def _notes(calls: Sequence[Any], computed: bool, shown: int) -> Iterator[str]:
    """What became of the calls, in lines."""
    if calls:
        became = "computed by Python and now inputs" if computed else "now inputs without values"
        yield f"calls Python, which no compiler can: {', '.join(op.type for op in calls)}; {len(calls)} {became}"
    if shown:
        yield f"{counted(shown, 'call')} without results left out"
