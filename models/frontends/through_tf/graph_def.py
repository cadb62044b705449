"""A frozen GraphDef: its placeholders and its constant weights as arguments of one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from opscope.models.arguments import ArgSpec
from opscope.models.frontends.base import Refused
from opscope.models.frontends.through_tf.built import TfBuilt
from opscope.models.frontends.through_tf.saved_model import given_shapes, spec_of

VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
NO_RESULT = ("NoOp", "Assert", "Const", "Placeholder")
"""Ops whose nodes are not outputs of the graph, although no other node reads them."""


def read(path: Path) -> Any:
    """The GraphDef in a file, binary. Raises Refused if it is none."""
    graph = tf.compat.v1.GraphDef()
    try:
        graph.ParseFromString(path.read_bytes())
    except (DecodeError, OSError) as error:
        raise Refused(str(path), "a binary GraphDef", str(error)) from None
    if not graph.node:
        raise Refused(str(path), "a GraphDef with nodes", "an empty graph")
    return graph


def as_function(graph: Any, where: str, shapes: Mapping[str, Sequence[int]], sizes: str = "") -> TfBuilt:
    """The graph as a function of its placeholders and its floating constants of one axis or more.

    Raises Refused: a graph with variables, an input of open shape, no output.
    """
    loose = next((node for node in graph.node if node.op in VARIABLES), None)
    if loose is not None:
        hint = "freezing it (convert_variables_to_constants_v2)"
        raise Refused(where, "a frozen graph", f"the variable {loose.name!r}", hint)
    placeholders = {
        node.name: tf.TensorSpec(tf.TensorShape(node.attr["shape"].shape), tf.dtypes.as_dtype(node.attr["dtype"].type))
        for node in graph.node
        if node.op == "Placeholder"
    }
    shapes = given_shapes(placeholders, shapes, sizes, where)
    specs = [spec_of(name, spec, shapes, where) for name, spec in placeholders.items()]
    values = {}
    inputs = len(specs)
    for node in graph.node:
        value = tf.make_ndarray(node.attr["value"].tensor) if node.op == "Const" else None
        if value is not None and value.ndim and np.issubdtype(value.dtype, np.floating):
            specs.append(ArgSpec(node.name, value.shape, value.dtype.name, "", "parameter"))
            values[node.name] = value
    outputs = _outputs(graph)
    if not inputs or not outputs:
        raise Refused(where, "a graph with a placeholder and a result", f"{inputs} and {len(outputs)}")

    # What is mapped to a tensor must be gone: XLA takes no placeholder, not even one that nobody reads.
    rest = tf.compat.v1.GraphDef()
    rest.CopyFrom(graph)
    del rest.node[:]
    names = {spec.name for spec in specs}
    rest.node.extend(node for node in graph.node if node.name not in names)

    def call(*tensors: Any) -> Any:
        mapped = {f"{spec.name}:0": tensor for spec, tensor in zip(specs, tensors, strict=True)}
        return tf.import_graph_def(rest, input_map=mapped, return_elements=outputs, name="")

    return TfBuilt(call, tuple(specs), values)


def _outputs(graph: Any) -> list[str]:
    """The first result of each node that no other reads, in the graph's order."""
    read = {word.lstrip("^").partition(":")[0] for node in graph.node for word in node.input}
    return [f"{node.name}:0" for node in graph.node if node.name not in read and node.op not in NO_RESULT]
