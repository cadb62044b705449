"""The value of every node of an ONNX graph: as the standard's reference computes it, and as results of an import.

A process of its own writes, into one folder: `module.mlirbc` (the graph with all of these values as its results),
`inputs.npz` (its arguments), `values.npz` (the reference's values) and `nodes.json` (name and kind of each node).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from opscope.base.children.inside import Parent
from opscope.models import frontends
from opscope.models.frontends import child
from opscope.models.frontends.own_results_child import value_of
from opscope.models.frontends.through_onnx.expand import expand
from opscope.models.frontends.through_onnx.lower import lower
from opscope.models.frontends.through_onnx.reference import evaluator


def write(parent: Parent) -> None:
    """Does the task of `own_results_child.run`. Raises what the reference or the importer raises."""
    task = parent.task()
    framework, folder = task.pop("framework"), Path(task.pop("folder"))
    sources, module, _ = task.pop("sources"), Path(task.pop("module")), task.pop("cap")
    specs = child.read(module).arguments
    built = frontends.get(framework).build(child.source_of(task))
    inputs = {spec.name: value_of(spec, place) for spec, place in zip(specs, sources, strict=True)}
    model, values, names = with_all_results(built.proto, inputs)
    (folder / "module.mlirbc").write_bytes(lower(expand(model)))
    np.savez(folder / "inputs.npz", *inputs.values())
    np.savez(folder / "values.npz", *values)
    (folder / "nodes.json").write_text(json.dumps(names), encoding="utf-8")


def with_all_results(
    model: ModelProto, inputs: dict[str, np.ndarray]
) -> tuple[ModelProto, list[np.ndarray], list[str]]:
    """The model with every tensor that a node computes as a result, the tensors' values, and the nodes' names."""
    computed: Any = evaluator(model).run(None, dict(inputs), intermediate=True)
    out = ModelProto()
    out.CopyFrom(model)
    del out.graph.output[:]
    values, names = [], []
    for index, node in enumerate(model.graph.node):
        for name in node.output:
            value = computed.get(name)
            # What is made of shapes alone is folded before the import, and has no node there.
            if not isinstance(value, np.ndarray | np.generic) or node.op_type in ("Constant", "Shape"):
                continue
            value = np.asarray(value)
            element = helper.np_dtype_to_tensor_dtype(value.dtype)
            out.graph.output.append(helper.make_tensor_value_info(name, element, value.shape))
            values.append(value)
            names.append(f"{(node.name or f'node_{index}').strip('/')}/{node.op_type}")
    return out, values, names
