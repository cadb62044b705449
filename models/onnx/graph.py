"""An ONNX graph as it is written down: nodes in order, and weights as named arguments without values.

`Graph` is what the models of this folder are built with. It holds no weight: a full-size model takes kilobytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from opscope.models.arguments import ArgSpec
from opscope.models.frontends.through_onnx.built import OnnxBuilt
from opscope.models.seeding import dtype_of

OPSET = 18
"""Version of the default operator set that a graph is written in, unless it says otherwise."""
ELEMENT = {"float32": TensorProto.FLOAT, "bfloat16": TensorProto.BFLOAT16, "int64": TensorProto.INT64}
"""NumPy's name -> ONNX's element type, for arguments."""


class Graph:
    """An ONNX graph under construction; every method returns names of values."""

    def __init__(self, name: str, dtype: str, opset: int = OPSET) -> None:
        """`dtype`: NumPy's name of the type of all floats."""
        self.name, self.dtype, self.opset = name, dtype, opset
        self._nodes: list[NodeProto] = []
        self._constants: dict[bytes, TensorProto] = {}
        self._arguments: list[ArgSpec] = []

    def input(self, name: str, shape: Sequence[int], distribution: str = "normal:1", dtype: str = "") -> str:
        """An input of the model."""
        return self._argument(ArgSpec(name, tuple(shape), dtype or self.dtype, distribution, "input"))

    def weight(self, name: str, shape: Sequence[int], distribution: str, role: str = "parameter") -> str:
        """A weight; `role` `state` for running statistics."""
        return self._argument(ArgSpec(name, tuple(shape), self.dtype, distribution, role))

    def _argument(self, spec: ArgSpec) -> str:
        self._arguments.append(spec)
        return spec.name

    def constant(self, value: Any, dtype: str = "int64") -> str:
        """A constant of the graph: a scalar, a list or an array; equal ones are one. `float` is the model's type."""
        array = np.asarray(value).astype(dtype_of(self.dtype if dtype == "float" else dtype))
        tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))
        key = tensor.SerializeToString()
        if key not in self._constants:
            tensor.name = f"const_{len(self._constants)}"
            self._constants[key] = tensor
        return self._constants[key].name

    def op(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """A node with one result; an empty input is an optional one left out."""
        return self.ops(kind, *inputs, results=1, name=name, **attributes)[0]

    def ops(self, kind: str, *inputs: str, results: int, name: str = "", **attributes: Any) -> list[str]:
        """A node with `results` results. `name` is what locations show."""
        name = name or f"{kind}_{len(self._nodes)}"
        outputs = [f"{name}.{i}" if results > 1 else f"{name}.out" for i in range(results)]
        self._nodes.append(helper.make_node(kind, list(inputs), outputs, name=name, **attributes))
        return outputs

    def conv(
        self, name: str, x: str, shape: Sequence[int], *, bias: bool = True, gain: float = 2.0, **attributes: Any
    ) -> str:
        """A convolution with weights of `shape` (out, in / groups, *window), scaled by He's rule times `gain`/2."""
        deviation = math.sqrt(gain / math.prod(shape[1:]))
        names = [self.weight(f"{name}.weight", shape, f"normal:{deviation:.6g}")]
        if bias:
            names.append(self.weight(f"{name}.bias", shape[:1], "normal:0.1"))
        attributes.setdefault("kernel_shape", list(shape[2:]))
        return self.op("Conv", x, *names, name=name, **attributes)

    def batch_norm(self, name: str, x: str, channels: int, gain: float = 1.0) -> str:
        """Batch normalisation by running statistics over axis 1."""
        laws = {
            "weight": f"normal:{gain:g}:{0.1 * gain:g}",
            "bias": "normal:0.1",
            "running_mean": "normal:0.1",
            "running_var": "uniform:0.5:1.5",
        }
        names = [
            self.weight(f"{name}.{part}", (channels,), distribution, "state" if "running" in part else "parameter")
            for part, distribution in laws.items()
        ]
        return self.op("BatchNormalization", x, *names, name=name, epsilon=1e-5)

    def dense(self, name: str, x: str, inputs: int, outputs: int, gain: float = 1.0) -> str:
        """An affine map of the last axis as exporters write it: MatMul, then Add."""
        weight = self.weight(f"{name}.weight", (inputs, outputs), f"normal:{math.sqrt(gain / inputs):.6g}")
        product = self.op("MatMul", x, weight, name=f"{name}.matmul")
        return self.op("Add", product, self.weight(f"{name}.bias", (outputs,), "normal:0.02"), name=name)

    def layer_norm(self, name: str, x: str, width: int, epsilon: float = 1e-12) -> str:
        """Layer normalisation over the last axis."""
        scale = self.weight(f"{name}.weight", (width,), "normal:1:0.1")
        offset = self.weight(f"{name}.bias", (width,), "normal:0.05")
        return self.op("LayerNormalization", x, scale, offset, name=name, axis=-1, epsilon=epsilon)

    def reshape(self, x: str, shape: Sequence[int], name: str = "") -> str:
        """`x` in another shape; 0 keeps an extent, -1 takes the rest."""
        return self.op("Reshape", x, self.constant(list(shape)), name=name)

    def finish(self, *outputs: str) -> OnnxBuilt:
        """The model; its results are `outputs`. Raises ONNX's own errors where the graph is not valid."""
        import onnx

        def info(spec: ArgSpec) -> ValueInfoProto:
            return helper.make_tensor_value_info(spec.name, ELEMENT[spec.dtype], spec.shape)

        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph(
            self._nodes, self.name, [info(s) for s in self._arguments], results, list(self._constants.values())
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
        onnx.checker.check_model(inferred)
        return OnnxBuilt(inferred, tuple(self._arguments))
