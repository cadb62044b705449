"""What ONNX graphs become whose norms are composed, or the set's own RMSNormalization: the op of that name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="pip install -e '.[onnx]'")
pytest.importorskip("torch_mlir", reason="pip install -e '.[onnx]'")

from onnx import NodeProto, TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from opscope.compiler.tests import programs  # noqa: E402
from opscope.models.frontends.through_onnx.expand import expand  # noqa: E402
from opscope.models.frontends.through_onnx.lower import lower  # noqa: E402

NODE = helper.make_node
FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16
HELD = {
    "two": np.float32(2),
    "three": np.float32(3),
    "one": np.float32(1),
    "epsilon": np.float32(1e-3),
    "last": np.array([-1]),
    "first": np.array([0]),
}


def simplified(
    root: str = "reciprocal", power: str = "two", axes: str = "last", element: int = FLOAT
) -> list[NodeProto]:
    """An RMS norm as exporters write it for sets before 23, in float32 whatever the element type is."""
    scaled = {
        "reciprocal": [NODE("Reciprocal", ["r"], ["i"]), NODE("Mul", ["x32", "i"], ["n32"])],
        "one over": [NODE("Div", ["one", "r"], ["i"]), NODE("Mul", ["i", "x32"], ["n32"])],
        "over": [NODE("Div", ["x32", "r"], ["n32"])],
        "upside down": [NODE("Div", ["r", "x32"], ["n32"])],
    }
    return [
        NODE("Cast", ["x"], ["x32"], to=FLOAT),
        NODE("Pow", ["x32", power], ["s"]) if power else NODE("Mul", ["x32", "x32"], ["s"]),
        NODE("ReduceMean", ["s", axes], ["m"], keepdims=1),
        NODE("Add", ["m", "epsilon"], ["a"]),
        NODE("Sqrt", ["a"], ["r"]),
        *scaled[root],
        NODE("Cast", ["n32"], ["n"], to=element),
        NODE("Mul", ["w", "n"], ["y"]),
    ]


def proto(nodes: Sequence[NodeProto], element: int = FLOAT) -> onnx.ModelProto:
    """A model of x and a weight for each of its last dim."""
    shapes = {"x": (3, 5, 64), "w": (64,)}
    inputs = [helper.make_tensor_value_info(name, element, shape) for name, shape in shapes.items()]
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in HELD.items()]
    graph = helper.make_graph(
        list(nodes), "net", inputs, [helper.make_tensor_value_info("y", element, (3, 5, 64))], initializers
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


FORMS: dict[str, tuple[list[NodeProto], int]] = {
    "RMSNormalization": ([NODE("RMSNormalization", ["x", "w"], ["y"], epsilon=1e-3)], FLOAT),
    "RMSNormalization in float16": ([NODE("RMSNormalization", ["x", "w"], ["y"], epsilon=1e-3)], HALF),
    "Pow, Sqrt and Reciprocal": (simplified(), FLOAT),
    "Mul, and one over the root": (simplified("one over", power=""), FLOAT),
    "Div, of what was float16": (simplified("over", element=HALF), HALF),
}
ALIKE: dict[str, list[NodeProto]] = {
    "the third power": simplified(power="three"),
    "a mean along the first dim": simplified(axes="first"),
    "the root over the value": simplified("upside down"),
}
"""What differs in one point."""


def check(nodes: list[NodeProto], element: int) -> list[str]:
    """Compares both levels, composed and as one op, with the standard's reference; returns the names of the second."""
    model = proto(nodes, element)
    random = np.random.default_rng(5)
    kind = helper.tensor_dtype_to_np_dtype(element)
    inputs = {name: random.normal(1, 0.2, size=shape).astype(kind) for name, shape in (("x", (3, 5, 64)), ("w", (64,)))}
    (wanted,) = ReferenceEvaluator(model).run(None, inputs)
    source = lower(expand(model))
    for level in (0, 1):
        (got,) = programs.simulate(source, *inputs.values(), optimization_level=level)
        np.testing.assert_allclose(got, wanted, rtol=1e-2)
    return programs.fused_names(source)


@pytest.mark.parametrize("name", FORMS)
def test_a_norm_of_onnx_becomes_one_op(name: str) -> None:
    assert check(*FORMS[name]) == ["rms_norm"]


@pytest.mark.parametrize("name", ALIKE)
def test_what_only_looks_like_a_norm_is_composed(name: str) -> None:
    assert "rms_norm" not in check(ALIKE[name], FLOAT)


def test_a_mean_of_layer_normalization_is_recognised() -> None:
    model = proto([NODE("LayerNormalization", ["x", "w"], ["y"])])
    assert programs.fused_names(lower(expand(model))) == ["layer_norm"]
