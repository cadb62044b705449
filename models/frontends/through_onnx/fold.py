"""Computes nodes of an ONNX graph that depend on shapes and integer constants alone, before it is lowered.

torch-mlir computes a Range, or the extents of a mask, at run time, and no device can place a program with such sizes.
Nodes that compute with floats stay, because their inputs may be weights stored in another form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference.op_run import RuntimeImplementationError

from opscope.models.frontends.through_onnx.reference import evaluator
from opscope.models.frontends.through_onnx.writer import Scope

MOST = 1 << 16
"""Largest number of elements of a folded value; a larger value is still computed at run time."""

OF_SHAPES = ("Shape", "Size")
"""Ops that do not read the elements of their input."""

OF_CHANCE = (
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
    "Dropout",
)


def fold(model: ModelProto, scope: Scope) -> ModelProto:
    """`model` without the nodes whose results follow from constants and fixed shapes; those are initialisers."""
    known: dict[str, np.ndarray] = dict(scope.constants)
    wanted = {info.name for info in model.graph.output}
    out = ModelProto()
    out.CopyFrom(model)
    del out.graph.node[:]
    for node in model.graph.node:
        folded = None if wanted.intersection(node.output) else value_of(node, known, scope, model)
        if folded is None:
            out.graph.node.append(node)
            continue
        known |= folded
        out.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in folded.items())
    return out


def value_of(
    node: NodeProto, known: Mapping[str, np.ndarray], scope: Scope, model: ModelProto, *, floats: bool = False
) -> dict[str, np.ndarray] | None:
    """Returns the results of a node by name; None if they cannot be computed, are too large, or are `floats`' work."""
    if node.op_type == "Constant" or node.op_type in OF_CHANCE or node.domain not in ("", "ai.onnx"):
        return None
    if any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in node.attribute):
        return None
    operands: dict[str, np.ndarray] = {}
    for name in filter(None, node.input):
        if name in known:
            operands[name] = known[name]
        elif node.op_type in OF_SHAPES and name in scope.shapes:
            kind = helper.tensor_dtype_to_np_dtype(scope.types[name])
            operands[name] = np.broadcast_to(np.zeros((), kind), scope.shapes[name])
        else:
            return None
        if not floats and operands[name].dtype.kind not in "iub" and node.op_type not in OF_SHAPES:
            return None
    if any(np.prod(scope.shapes.get(name, ()), dtype=np.int64) > MOST for name in node.output):
        return None
    try:
        values = _run(node, operands, model)
    except RuntimeImplementationError:  # the reference lacks some versions of some ops
        return None
    return values if all(value.size <= MOST for value in values.values()) else None


def _run(node: NodeProto, operands: Mapping[str, np.ndarray], model: ModelProto) -> dict[str, np.ndarray]:
    """Runs one node with the reference implementation of the ONNX standard."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in operands.items()
    ]
    names = [name for name in node.output if name]
    graph = helper.make_graph([node], "folded", inputs, [helper.make_empty_tensor_value_info(name) for name in names])
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    results: Iterable[object] = evaluator(alone).run(None, dict(operands))
    return {name: np.asarray(value) for name, value in zip(names, results, strict=True)}


def constant_value(node: NodeProto) -> np.ndarray:
    """The value of a Constant node of numbers."""
    value = helper.get_attribute_value(node.attribute[0])
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value, np.float32 if "float" in node.attribute[0].name else np.int64)
