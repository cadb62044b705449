"""Turns the weights of an ONNX file into arguments of its graph, and returns their values separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from opscope.base.first_line import first_line
from opscope.models.arguments import ArgSpec
from opscope.models.frontends import open_shapes
from opscope.models.frontends.base import Refused
from opscope.models.frontends.through_onnx.expand import CONSTANT_INPUTS

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


def read(path: Path) -> ModelProto:
    """Reads the model in a file, with external data in files beside it. Raises Refused if it is not ONNX."""
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model if model.ByteSize() < 1 << 30 else str(path))
    except Exception as error:  # noqa: BLE001 - protobuf, checker and file system each have errors of their own
        raise Refused(str(path), "an ONNX model", f"{type(error).__name__}: {first_line(error)}"[:200]) from None
    if not model.graph.node:
        raise Refused(str(path), "an ONNX model with nodes", "an empty graph")
    return model


def fix_inputs(
    model: ModelProto, where: str, shapes: Mapping[str, Sequence[int]], sizes: str = ""
) -> list[ValueInfoProto]:
    """Returns the graph's own inputs, with open extents from `sizes` (of `--shape`) and from `shapes`.

    Raises Refused if some stay open.
    """
    initializers = {t.name for t in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in initializers]
    for info in inputs:
        tensor = info.type.tensor_type
        if not info.type.HasField("tensor_type") or not tensor.HasField("shape"):
            raise Refused(where, "inputs that are tensors of known rank", f"{info.name!r}, which is none")
    dims = {info.name: [_dim(d) for d in info.type.tensor_type.shape.dim] for info in inputs}
    left = open_shapes.bound(dims, sizes, where)
    for info in inputs:
        tensor = info.type.tensor_type
        for dim, size in zip(tensor.shape.dim, left[info.name], strict=True):
            if isinstance(size, int):
                dim.dim_value = size
        shape = shapes.get(info.name)
        if shape is not None and len(shape) == len(tensor.shape.dim):
            for dim, extent in zip(tensor.shape.dim, shape, strict=True):
                if not dim.HasField("dim_value") or dim.dim_value <= 0:
                    dim.dim_value = extent
        if open_shapes.is_open(now := [_dim(d) for d in tensor.shape.dim]):
            shown = ", ".join(map(str, now))
            hint = (
                f"{open_shapes.hint(left)}, or --inputs FILE.npz with an array {info.name!r}, whose shape is then taken"
            )
            raise Refused(where, "inputs of fixed shape", f"{info.name!r} of [{shown}]", hint)
    return inputs


def _dim(dim: Any) -> open_shapes.Dim:
    """A dimension's size, or the name that the graph gives it."""
    fixed = dim.HasField("dim_value") and dim.dim_value > 0
    return int(dim.dim_value) if fixed else dim.dim_param or open_shapes.OPEN


def lift(
    model: ModelProto, inputs: Sequence[ValueInfoProto]
) -> tuple[ModelProto, list[ArgSpec], dict[str, np.ndarray]]:
    """Returns the model with its float weights as graph inputs, all arguments in order, and the weights' values.

    Values that decide the program (scales of a Resize, limits of a Clip, integers, scalars) stay constants.
    """
    fixed = {
        node.input[i] for node in model.graph.node for i in CONSTANT_INPUTS.get(node.op_type, ()) if i < len(node.input)
    }
    lifted = [t for t in model.graph.initializer if t.data_type in FLOATS and t.dims and t.name not in fixed]
    names = {t.name for t in lifted}
    kept = [t for t in model.graph.initializer if t.name not in names]
    values = {t.name: numpy_helper.to_array(t) for t in lifted}
    out = ModelProto()
    out.CopyFrom(model)
    del out.graph.initializer[:]
    out.graph.initializer.extend(kept)
    del out.graph.input[:]
    out.graph.input.extend(inputs)
    out.graph.input.extend(helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in lifted)
    specs = [spec_of(info, "input") for info in inputs]
    specs += [ArgSpec(name, value.shape, value.dtype.name, "", "parameter") for name, value in values.items()]
    return out, specs, values


def spec_of(info: ValueInfoProto, role: str) -> ArgSpec:
    """A graph input as an argument; the op that reads it decides its distribution."""
    tensor = info.type.tensor_type
    dtype: Any = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return ArgSpec(info.name, tuple(d.dim_value for d in tensor.shape.dim), dtype.name, "", role)
