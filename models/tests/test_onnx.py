"""The ONNX route against the standard's own reference: its node cases, and our models as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.prepare.golden import compile_module
from opscope.models import registry
from opscope.models.frontends.base import Refused, Source
from opscope.models.frontends.onnx import FRONTEND
from opscope.models.frontends.torch_mlir_text import NotLowered
from opscope.models.seeding import draw

onnx = pytest.importorskip("onnx", reason="pip install -e '.[onnx]'")
pytest.importorskip("torch_mlir", reason="pip install -e '.[onnx]'")
THROUGH = "opscope.models.frontends.through_onnx"
lift, lowering = pytest.importorskip(f"{THROUGH}.lift"), pytest.importorskip(f"{THROUGH}.lower")
expand, lower = pytest.importorskip(f"{THROUGH}.expand").expand, lowering.lower

PARAMETERS = {"resnet50_onnx": 25_557_032, "bert_base_onnx": 109_482_240, "espcn_onnx": 22_729}
"""As published (torchvision, the checkpoint, table 1 of the paper's sizes)."""
OURS = sorted(m.name for m in registry.match("*_onnx"))


def by_xla(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    return compile_module(lower(expand(model)))(inputs)


def by_the_standard(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    names = [info.name for info in model.graph.input]
    return [np.asarray(x) for x in ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))]


def agree(got: Sequence[np.ndarray], expected: Sequence[np.ndarray], relative: float = 1e-5) -> None:
    assert [g.shape for g in got] == [e.shape for e in expected]
    for ours, theirs in zip(got, expected, strict=True):
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        largest = np.max(np.abs(b), initial=1, where=np.isfinite(b))
        assert np.allclose(a, b, rtol=0, atol=relative * largest, equal_nan=True)


@pytest.mark.parametrize("name", PARAMETERS)
def test_published_parameter_count(name: str) -> None:
    assert registry.get(name).build("float32").parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) for n in OURS])
def test_a_model_computes_what_the_standards_reference_does(name: str) -> None:
    built = registry.get(name).build("float32")
    inputs = [draw(s.law, s.shape, s.dtype, 0, i) for i, s in enumerate(built.arguments)]
    got = by_xla(built.proto, inputs)
    agree(got, by_the_standard(built.proto, inputs))
    for out in got:
        assert 0.02 < out.astype(np.float64).std() < 20
        assert len(np.unique(out)) > min(out.size, 2000) // 10 or out.dtype.kind == "i"


def conv_file(path: Path, shape: Sequence[object] = (1, 3, 8, 8)) -> Path:
    """A convolution, a Clip and a Resize, weights inside, as an exporter would write them."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    initializers = {
        "conv.weight": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "conv.bias": rng.normal(size=4).astype(np.float32),
        "low": np.float32(0),
        "high": np.float32(1.5),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Clip", ["c", "low", "high"], ["r"]),
        helper.make_node("Resize", ["r", "", "scales"], ["y"], mode="linear"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape[0], 4, 16, 16])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in initializers.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.mark.slow
def test_a_file_keeps_its_weights_and_only_weights_become_arguments(tmp_path: Path) -> None:
    model = lift.read(conv_file(tmp_path / "net.onnx"))
    proto, specs, values = lift.lift(model, lift.fix_inputs(model, "net.onnx", {}))
    assert [(s.name, s.shape, s.role) for s in specs] == [
        ("x", (1, 3, 8, 8), "input"),
        ("conv.weight", (4, 3, 3, 3), "parameter"),
        ("conv.bias", (4,), "parameter"),
    ]
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    agree(by_xla(proto, [x, *values.values()]), by_the_standard(model, [x]))


def test_an_open_extent_is_taken_from_given_shapes_or_refused(tmp_path: Path) -> None:
    model = lift.read(conv_file(tmp_path / "net.onnx", ("batch", 3, 8, 8)))
    with pytest.raises(
        Refused,
        match=r"net.onnx: expected inputs of fixed shape, got 'x' of \[batch, 3, 8, 8\]; try --shape batch=1, or",
    ):
        lift.fix_inputs(model, "net.onnx", {})
    (info,) = lift.fix_inputs(model, "net.onnx", {"x": (5, 3, 8, 8)})
    assert lift.spec_of(info, "input").shape == (5, 3, 8, 8)
    model = lift.read(conv_file(tmp_path / "net.onnx", ("batch", 3, 8, 8)))
    (info,) = lift.fix_inputs(model, "net.onnx", {"x": (5, 3, 8, 8)}, "batch=6")
    assert lift.spec_of(info, "input").shape == (6, 3, 8, 8)


@pytest.mark.parametrize("data", [b"", b"no protobuf at all", b"\x08\x01"])
def test_what_is_no_onnx_is_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad.onnx").write_bytes(data)
    with pytest.raises(Refused, match=r"bad.onnx: expected an ONNX model") as caught:
        lift.read(tmp_path / "bad.onnx")
    assert "\n" not in str(caught.value)


def test_what_follows_from_shapes_alone_is_computed_before_lowering() -> None:
    """Else torch-mlir leaves a Range to the run, and what reads it has no shape that a device could place."""
    helper, float_, int_ = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    nodes = [
        helper.make_node("Shape", ["x"], ["extent"], start=1, end=2),
        helper.make_node("Squeeze", ["extent"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["places"]),
        helper.make_node("Cast", ["places"], ["real"], to=float_),
        helper.make_node("Mul", ["x", "real"], ["y"]),
        helper.make_node("Size", ["x"], ["count"]),
    ]
    constants = [onnx.numpy_helper.from_array(np.asarray(n, np.int64), name) for n, name in ((0, "zero"), (1, "one"))]
    x = helper.make_tensor_value_info("x", float_, (2, 5))
    outputs = [helper.make_tensor_value_info("y", float_, (2, 5)), helper.make_tensor_value_info("count", int_, ())]
    graph = helper.make_graph(nodes, "shapes", [x], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    assert [node.op_type for node in expand(model).graph.node] == ["Mul", "Size"], "a result stays a node"
    inputs = [draw("normal:1", (2, 5), "float32", 0, 0)]
    agree(by_xla(model, inputs), by_the_standard(model, inputs))


def test_an_input_that_decides_the_shape_is_bound_from_the_users_values(tmp_path: Path) -> None:
    helper, path = onnx.helper, tmp_path / "net.onnx"
    infos = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (2, 6)),
        helper.make_tensor_value_info("shape", onnx.TensorProto.INT64, (2,)),
    ]
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["z"]), helper.make_node("Neg", ["z"], ["y"])]
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ("a", "b"))
    graph = helper.make_graph(nodes, "net", infos, [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.savez(tmp_path / "in.npz", x=x, shape=np.array([3, 4]))
    source = Source("net", str(path), "float32", inputs=str(tmp_path / "in.npz"))
    result = FRONTEND.export(FRONTEND.build(source), source)
    assert ([spec.name for spec in result.arguments], result.bound) == (["x"], ("shape",))
    agree(compile_module(result.bytecode)([x]), [-x.reshape(3, 4)])
    unbound = Source("net", str(path), "float32")
    with pytest.raises(NotLowered, match=r"; try --inputs FILE.npz with 'shape', whose values decide the program"):
        FRONTEND.export(FRONTEND.build(unbound), unbound)


@pytest.mark.parametrize(("shape", "size"), [((1, 6, 2, 2), 3), ((4, 4, 2, 3), 3), ((3, 5, 1, 1), 5)])
def test_the_reference_of_lrn_sums_over_all_channels(shape: tuple[int, ...], size: int) -> None:
    """Held to torch-mlir's import, and to onnx's own reference where it has as many batch entries as channels."""
    from opscope.models.frontends.through_onnx.reference import evaluator

    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy"]
    node = onnx.helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5, beta=0.75, bias=1.0)
    graph = onnx.helper.make_graph([node], "net", info[:1], info[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    got = evaluator(model).run(None, {"x": x})
    agree(got, by_xla(model, [x]))
    theirs = by_the_standard(model, [x])
    assert np.allclose(got[0], theirs[0], rtol=1e-5) == (shape[0] >= shape[1])
    pytest.importorskip("onnxruntime", reason="pip install -e '.[onnx]'")
    from opscope.models.frontends.through_onnx.onnx_runtime import computed

    by, second = computed(model, {"x": x})
    assert by.startswith("ONNX Runtime 1.")
    agree(second, got)


def test_an_if_that_shapes_decide_is_the_branch_that_is_taken() -> None:
    """As exporters write a squeeze of an extent of 1: a rank that depends on it, names that both branches have."""
    helper, float_, bool_ = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL
    node = helper.make_node

    def branch(nodes: list[onnx.NodeProto], result: str) -> onnx.GraphProto:
        weight = onnx.numpy_helper.from_array(np.arange(1, 4, dtype=np.float32), "w")
        return helper.make_graph(nodes, "b", [], [helper.make_tensor_value_info(result, float_, None)], [weight])

    half = [
        node("Cast", ["length"], ["real"], to=float_),
        node("Div", ["real", "two"], ["ratio"]),
        node("Greater", ["ratio", "two"], ["is_long"]),
    ]
    inner = node(
        "If",
        ["is_long"],
        ["z"],
        then_branch=branch([node("Neg", ["t"], ["u"])], "u"),
        else_branch=branch([node("Mul", ["t", "w"], ["u"])], "u"),
    )
    nodes = [
        node("Shape", ["x"], ["extent"], start=1, end=2),
        node("Squeeze", ["extent"], ["length"]),
        node("Equal", ["length", "one"], ["is_one"]),
        *half,
        node(
            "If",
            ["is_one"],
            ["s"],
            then_branch=branch([node("Squeeze", ["x", "axis"], ["t"])], "t"),
            else_branch=branch([node("Exp", ["x"], ["t"]), inner], "z"),
        ),
        node(
            "If",
            ["is_one"],
            ["y"],
            then_branch=branch([node("Abs", ["s"], ["t"])], "t"),
            else_branch=branch([node("Tanh", ["s"], ["t"])], "t"),
        ),
    ]
    constants = [
        onnx.numpy_helper.from_array(np.asarray(n, kind), name)
        for n, kind, name in ((1, np.int64, "one"), ([1], np.int64, "axis"), (2, np.float32, "two"))
    ]
    for shape, kinds in (
        ((2, 1, 3), ["Squeeze", "Abs"]),
        ((2, 4, 3), ["Exp", "Mul", "Tanh"]),
        ((2, 5, 3), ["Exp", "Neg", "Tanh"]),
    ):
        x = helper.make_tensor_value_info("x", float_, shape)
        graph = helper.make_graph(nodes, "ifs", [x], [helper.make_tensor_value_info("y", float_, None)], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        kept = [n.op_type for n in expand(model).graph.node if n.op_type not in ("Identity", "Cast", "Div", "Greater")]
        assert kept == kinds
        inputs = [draw("normal:1", shape, "float32", 0, 0)]
        agree(by_xla(model, inputs), by_the_standard(model, inputs))
    # One that the data decide stays.
    data = helper.make_graph(
        [
            node(
                "If",
                ["c"],
                ["y"],
                then_branch=branch([node("Abs", ["x"], ["t"])], "t"),
                else_branch=branch([node("Neg", ["x"], ["t"])], "t"),
            )
        ],
        "data",
        [helper.make_tensor_value_info("c", bool_, ()), helper.make_tensor_value_info("x", float_, (3,))],
        [helper.make_tensor_value_info("y", float_, (3,))],
    )
    assert [n.op_type for n in expand(helper.make_model(data)).graph.node] == ["If"]


# --- kinds that torch-mlir lowers to other numbers, or not at all


def graph(kind: str, inputs: dict[str, np.ndarray], output: tuple[int, Sequence[int]], opset: int = 21, **attributes):
    """A model of one node."""
    from onnx import helper

    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in inputs.items()
    ]
    result = helper.make_tensor_value_info("y", output[0], list(output[1]))
    node = helper.make_node(kind, list(inputs), ["y"], name="node", **attributes)
    made = helper.make_graph([node], "g", infos, [result])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


NUMBERS = np.array([[-7, 7, -7, 7, 6, -6, 0], [4, 4, -4, -4, 3, -3, 5]])


@pytest.mark.parametrize("kind", ["float32", "float16", "float64", "int8", "int16", "int32", "int64", "uint8"])
def test_a_remainder_has_the_sign_of_its_divisor(kind: str) -> None:
    a, b = (np.abs(NUMBERS) if kind == "uint8" else NUMBERS).astype(kind)
    model = graph("Mod", {"a": a, "b": b}, (onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape))
    if kind == "uint8":
        b[:] = 5
    agree(by_xla(model, [a, b]), [np.mod(a, b)])


def test_a_remainder_by_an_infinity_is_the_dividend_or_the_infinity() -> None:
    a = np.array([3, -3, 1, -1, np.inf, np.nan, 5], np.float32)
    b = np.array([np.inf, np.inf, -np.inf, -np.inf, np.inf, np.inf, 3], np.float32)
    model = graph("Mod", {"a": a, "b": b}, (onnx.TensorProto.FLOAT, a.shape))
    expected = np.array([3, np.inf, -np.inf, -1, np.nan, np.nan, 2], np.float32)
    np.testing.assert_array_equal(by_xla(model, [a, b])[0], expected)


@pytest.mark.parametrize("comparison", ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_integers_are_compared_by_their_numbers(comparison: str, kind: str) -> None:
    most = np.iinfo(kind).max
    a, b = np.array([0, 1, most, most, most // 2 + 1, 5], kind), np.array([most, 1, 0, most, 1, 6], kind)
    function = {
        "Equal": np.equal,
        "Less": np.less,
        "LessOrEqual": np.less_equal,
        "Greater": np.greater,
        "GreaterOrEqual": np.greater_equal,
    }[comparison]
    model = graph(comparison, {"a": a, "b": b}, (onnx.TensorProto.BOOL, a.shape))
    [got] = by_xla(model, [a, b])
    np.testing.assert_array_equal(got, function(a, b))


@pytest.mark.parametrize(("kind", "function"), [("ReduceMax", np.any), ("ReduceMin", np.all)])
def test_the_largest_of_booleans(kind: str, function) -> None:
    x = np.array([[True, False], [True, True], [False, False]])
    [got] = by_xla(graph(kind, {"x": x}, (onnx.TensorProto.BOOL, (1, 1)), keepdims=1), [x])
    np.testing.assert_array_equal(got, function(x, keepdims=True))


@pytest.mark.parametrize("p", [1, 2])
def test_a_norm_of_zero_divides_nothing(p: int) -> None:
    x = np.array([[0, 3], [0, 4]], np.float32)
    model = graph("LpNormalization", {"x": x}, (onnx.TensorProto.FLOAT, x.shape), axis=0, p=p, opset=22)
    agree(by_xla(model, [x]), [x / np.array([1, 5 if p == 2 else 7], np.float32)])


def test_an_old_version_of_the_standard_is_converted() -> None:
    """torch-mlir#3442: the sizes of a Pad were attributes before version 11."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    model = graph("Pad", {"x": x}, (1, (5, 6)), opset=6, mode="reflect", pads=[1, 1, 1, 1])
    from opscope.models.frontends.through_onnx.built import OnnxBuilt

    exported = FRONTEND.export(OnnxBuilt(model, (), {}, ()), Source("m", "m.onnx", "float32"))
    agree(compile_module(exported.bytecode)([x]), [np.pad(x, 1, mode="reflect")])


def test_onnx_runtime_answers_where_the_reference_raises() -> None:
    """iree#19935: sizes below zero crop, which the reference of the standard does not do."""
    pytest.importorskip("onnxruntime")
    from opscope.models.frontends.through_onnx.built import OnnxBuilt

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    model = graph("Pad", {"x": x, "p": np.zeros(4, np.int64)}, (1, (2, 3)))
    del model.graph.input[1]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1, 0, 0, -1]), "p"))
    by, [got] = FRONTEND.results(OnnxBuilt(model, (), {}, ()), Source("m", "m.onnx", "float32"), {"x": x})
    assert by.startswith("ONNX Runtime ")
    np.testing.assert_array_equal(got, x[1:, :-1])


FORMS = {
    "windows that end outside": ("MaxPool", (1, 2, 7, 6), {"kernel_shape": [3, 2], "strides": [2, 3], "ceil_mode": 1}),
    "windows with holes": (
        "MaxPool",
        (1, 1, 8, 9),
        {"kernel_shape": [2, 3], "dilations": [2, 2], "pads": [1, 1, 0, 1]},
    ),
    "in three dims": ("AveragePool", (1, 1, 5, 4, 6), {"kernel_shape": [2, 2, 3], "strides": [2, 1, 2]}),
    "padding after": (
        "AveragePool",
        (1, 2, 6, 7),
        {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "strides": [1, 2]},
    ),
    "padding before": ("AveragePool", (1, 2, 6, 7), {"kernel_shape": [2, 4], "auto_pad": "SAME_LOWER"}),
    "padding that counts": (
        "AveragePool",
        (1, 1, 7, 7),
        {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1},
    ),
    "a root of cubes": (
        "LpPool",
        (1, 2, 6, 7),
        {"kernel_shape": [2, 3], "p": 3, "strides": [2, 2], "pads": [1, 1, 0, 0]},
    ),
    "products before": ("CumProd", (3, 5), {"exclusive": 1}),
    "products after": ("CumProd", (3, 7), {"reverse": 1}),
    "the first of the largest": ("Hardmax", (3, 4), {"axis": 0}),
    "sequences": ("ReverseSequence", (4, 3, 2), {"time_axis": 0, "batch_axis": 1}),
}
SECOND = {"CumProd": np.asarray(1, np.int64), "ReverseSequence": np.array([1, 4, 2], np.int64)}
"""Op -> its second input, which is a constant."""


@pytest.mark.parametrize("form", FORMS)
def test_what_is_composed_is_as_the_standards_reference_has_it(form: str) -> None:
    kind, shape, attributes = FORMS[form]
    x = np.random.default_rng(3).integers(-4, 5, shape).astype(np.float32) / 2
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node(kind, ["x", *(["second"] if kind in SECOND else [])], ["y"], **attributes)],
            "net",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
            [onnx.numpy_helper.from_array(SECOND[kind], "second")] if kind in SECOND else [],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 26)],
        ir_version=13,
    )
    agree(by_xla(model, [x]), by_the_standard(model, [x]))


@pytest.mark.parametrize("channels", [1, 3], ids=["one scale", "a scale for each channel"])
def test_a_convolution_of_quantised_numbers(channels: int) -> None:
    rng = np.random.default_rng(4)
    x, w = rng.integers(0, 256, (1, 2, 6, 6), np.uint8), rng.integers(0, 256, (3, 2, 3, 3), np.uint8)
    constants = {
        "xs": np.float32(0.02),
        "xz": np.uint8(120),
        "w": w,
        "wz": np.full(channels, 110, np.uint8).squeeze(),
        "ws": np.linspace(0.01, 0.03, channels, dtype=np.float32).squeeze(),
        "ys": np.float32(0.2),
        "yz": np.uint8(99),
        "b": np.array([-3000, 0, 5000], np.int32),
    }
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [
                onnx.helper.make_node(
                    "QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"], strides=[2, 1]
                )
            ],
            "net",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x.shape)],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, (1, 3, 2, 4))],
            [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 21)],
        ir_version=10,
    )
    [got], [want] = by_xla(model, [x]), by_the_standard(model, [x])
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1, "a tie of float32 may be rounded either way"
    assert (got == want).mean() > 0.9


def standard(kind: str, inputs: dict[str, np.ndarray], made: np.dtype | type, **attributes: object) -> onnx.ModelProto:
    """One node of the newest version of the standard; inputs whose names begin with `_` are constants."""
    types = {name: onnx.helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in inputs.items()}
    return onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node(kind, list(inputs), ["y"], **attributes)],
            "net",
            [onnx.helper.make_tensor_value_info(n, types[n], v.shape) for n, v in inputs.items() if n[0] != "_"],
            [onnx.helper.make_tensor_value_info("y", onnx.helper.np_dtype_to_tensor_dtype(np.dtype(made)), None)],
            [onnx.numpy_helper.from_array(value, name) for name, value in inputs.items() if name[0] == "_"],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 26)],
        ir_version=13,
    )


VALUES = np.array([0.0, -0.0, 1.3, -2.5, 3.5, 0.3, -7.0, 5.5, 1.0, 2.0], np.float32)


@pytest.mark.parametrize("source", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    "narrow",
    ["int4", "int2", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn"],
)
def test_narrow_numbers_there_and_back(narrow: str, source: str) -> None:
    x = VALUES.astype(source)
    x = x / 4 if narrow == "int2" else x
    kind = np.dtype(getattr(ml_dtypes, narrow))
    to = onnx.helper.np_dtype_to_tensor_dtype(kind)
    [got] = by_xla(standard("Cast", {"x": x}, kind, to=to), [x])
    assert got.dtype == kind
    np.testing.assert_array_equal(got.view(np.uint8), x.astype(kind).view(np.uint8))
    [back] = by_xla(standard("Cast", {"x": got}, source, to=onnx.helper.np_dtype_to_tensor_dtype(x.dtype)), [got])
    np.testing.assert_array_equal(back, got.astype(source))


def test_a_number_is_narrow_inside_of_a_graph_too() -> None:
    """float32 to FP8, a move, and back: the result has the roundings of FP8, and float64 is rounded once."""
    x = np.array([[1.0 + 2**-4 + 2**-40, 3.3], [-0.7, 100.9]])
    to = onnx.TensorProto.FLOAT8E4M3FN
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["a"], to=to),
        onnx.helper.make_node("Transpose", ["a"], ["b"]),
        onnx.helper.make_node("Cast", ["b"], ["y"], to=onnx.TensorProto.DOUBLE),
    ]
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, (2, 2)) for name in "xy"]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "net", info[:1], info[1:]),
        opset_imports=[onnx.helper.make_opsetid("", 25)],
        ir_version=12,
    )
    [got] = by_xla(model, [x])
    np.testing.assert_array_equal(got, [[1.125, -0.6875], [3.25, 104]])  # in two steps the first is a tie, and 1


@pytest.mark.parametrize(("mode", "want"), [("up", [2, 4, 1]), ("nearest", [1, 4, 1]), ("down", [1, 2, 0.5])])
def test_powers_of_two_are_rounded_as_asked(mode: str, want: list[float]) -> None:
    x = np.array([1.1, 3.9, 0.8], np.float32)
    kind = np.dtype(ml_dtypes.float8_e8m0fnu)
    to = onnx.TensorProto.FLOAT8E8M0
    [got] = by_xla(standard("Cast", {"x": x}, kind, to=to, round_mode=mode), [x])
    np.testing.assert_array_equal(got.astype(np.float32), want)


@pytest.mark.parametrize(
    ("source", "to"), [("float32", "int32"), ("int64", "float64"), ("uint16", "int16"), ("bool", "uint8")]
)
def test_bits_of_another_type(source: str, to: str) -> None:
    x = np.array([0, 1, 3, 250]).astype(source)
    x = -x if source == "float32" else x
    kind = np.dtype(to)
    model = standard("BitCast", {"x": x}, kind, to=onnx.helper.np_dtype_to_tensor_dtype(kind))
    np.testing.assert_array_equal(by_xla(model, [x])[0], x.view(kind))


@pytest.mark.parametrize("how", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_a_scatter_joins_all_updates_of_a_place(op: str, how: str) -> None:
    x = np.array([2.0, -3.0, 5.0, 1.0], np.float32)
    places, updates = np.array([1, 1, 3]), np.array([4.0, -7.0, 0.5], np.float32)
    inputs = {"x": x, "i": places[:, None] if op == "ScatterND" else places, "u": updates}
    want = x.copy()
    joined = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[how]
    joined.at(want, places, updates)
    np.testing.assert_array_equal(by_xla(standard(op, inputs, x.dtype, reduction=how), list(inputs.values()))[0], want)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("mode", "extents"), [("nearest", (3, 4)), ("linear", (2, 3, 4)), ("cubic", (5, 4)), ("linear", (6,))]
)
def test_a_grid_is_sampled(mode: str, extents: tuple[int, ...], padding: str, align: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2, 2, *extents)).astype(np.float32)
    grid = rng.uniform(-1.6, 1.6, (2, *[3] * len(extents), len(extents))).astype(np.float32)
    how = {"mode": mode, "padding_mode": padding, "align_corners": align}
    model = standard("GridSample", {"x": x, "grid": grid}, x.dtype, **how)
    agree(by_xla(model, [x, grid]), by_the_standard(model, [x, grid]))


@pytest.mark.parametrize(
    ("numbers", "length", "how"),
    [(1, None, {}), (2, 7, {}), (2, 3, {"inverse": 1}), (1, 8, {"onesided": 1}), (2, 9, {"inverse": 1, "onesided": 1})],
)
def test_a_fourier_transform(numbers: int, length: int | None, how: dict[str, int]) -> None:
    x = np.random.default_rng(6).normal(size=(2, 5, 3, numbers)).astype(np.float32)
    inputs = {"x": x, "_length": np.asarray(length or 5), "_axis": np.asarray(1)}
    model = standard("DFT", inputs, x.dtype, **how)
    agree(by_xla(model, [x]), by_the_standard(model, [x]))
    frames = {"s": x[0].reshape(1, -1, numbers), "_step": np.asarray(2), "_window": np.hanning(6).astype(np.float32)}
    model = standard("STFT", frames, x.dtype, onesided=how.get("onesided", 0) if numbers == 1 else 0)
    agree(by_xla(model, [frames["s"]]), by_the_standard(model, [frames["s"]]))


def test_the_axis_of_a_transform_is_as_the_version_of_the_standard_says() -> None:
    x = np.random.default_rng(7).normal(size=(2, 3, 4, 1)).astype(np.float32)
    model = standard("DFT", {"x": x}, x.dtype)
    agree(by_xla(model, [x]), [np.stack([(f := np.fft.fft(x[..., 0], axis=2)).real, f.imag], -1)])
    model.opset_import[0].version = 17
    agree(by_xla(model, [x]), [np.stack([(f := np.fft.fft(x[..., 0], axis=1)).real, f.imag], -1)])


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("largest", [0, 1])
def test_the_top_of_unsigned_integers(kind: str, largest: int) -> None:
    x = np.array([[3, 0, np.iinfo(kind).max, 7], [1, np.iinfo(kind).max // 2 + 1, 2, 5]], kind)
    model = standard("TopK", {"x": x, "_k": np.array([2])}, kind, largest=largest)
    model.graph.node[0].output.append("places")
    model.graph.output.append(onnx.helper.make_tensor_value_info("places", onnx.TensorProto.INT64, None))
    for got, want in zip(by_xla(model, [x]), by_the_standard(model, [x]), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("equation", [",->", "->", ",ij->ji", "i,,i->"])
def test_a_product_of_scalars(equation: str) -> None:
    terms = equation.partition("->")[0].split(",")
    inputs = {
        f"x{n}": np.asarray(np.arange(1, 1 + 3 ** len(t)).reshape([3] * len(t)), np.float32)
        for n, t in enumerate(terms)
    }
    model = standard("Einsum", inputs, np.float32, equation=equation)
    agree(by_xla(model, list(inputs.values())), [np.einsum(equation, *inputs.values())])


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("how", [{}, {"pads": [1, 1, 1, 1], "strides": [2, 2]}, {"ceil_mode": 1, "dilations": [2, 1]}])
def test_a_pool_of_bytes(kind: str, how: dict[str, object]) -> None:
    x = np.random.default_rng(8).integers(np.iinfo(kind).min, np.iinfo(kind).max, (1, 2, 6, 7)).astype(kind)
    model = standard("MaxPool", {"x": x}, kind, kernel_shape=[2, 3], **how)
    floats = standard("MaxPool", {"x": x.astype(np.float32)}, np.float32, kernel_shape=[2, 3], **how)
    np.testing.assert_array_equal(
        by_xla(model, [x])[0], by_the_standard(floats, [x.astype(np.float32)])[0].astype(kind)
    )


def looped(call: str, body: str, inputs: dict[str, np.ndarray], results: str, opset: int = 21) -> onnx.ModelProto:
    """A graph of one loop in ONNX's text; inputs whose names begin with `_` are constants."""
    shown = {np.dtype("float32"): "float", np.dtype("int64"): "int64"}
    given = ", ".join(f"{shown[v.dtype]}[{','.join(map(str, v.shape))}] {n}" for n, v in inputs.items() if n[0] != "_")
    graph = f"net ({given}) => (float[2] y, {results} z) {{ y, z = {call.replace('BODY', f'body = b {body}')} }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {graph}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(v, n) for n, v in inputs.items() if n[0] == "_")
    return model


COUNTED = (
    "(int64 i, bool c, float[2] s) => (bool go, float[2] t, float[2] u) "
    "{{ {} t = Add(s, w) k = Cast<to = 1>(i) u = Mul(t, k) }}"
)
LOOPS = {
    "a trip count": ("Loop <BODY> (_n, , x)", "go = Identity(c)", 4),
    "a condition": ("Loop <BODY> (, _c, x)", "two = Constant<value_int = 2>() go = Less(i, two)", 3),
    "both": ("Loop <BODY> (_n, _c, x)", "go = Identity(c)", 4),
}


@pytest.mark.parametrize("form", LOOPS)
def test_a_loop_of_known_steps(form: str) -> None:
    call, steps, taken = LOOPS[form]
    inputs = {"x": np.array([1.0, 2.0], np.float32), "w": np.array([0.5, -3.0], np.float32)}
    model = looped(call, COUNTED.format(steps), inputs | {"_n": np.asarray(4), "_c": np.asarray(True)}, "float[n, 2]")
    states = [inputs["x"] + (step + 1) * inputs["w"] for step in range(taken)]
    rows = [state * step for step, state in enumerate(states)]
    agree(by_xla(model, list(inputs.values())), [states[-1], np.stack(rows)])


@pytest.mark.parametrize("opset", [9, 21])
def test_a_scan_over_columns_backwards(opset: int) -> None:
    x, w = np.arange(10, dtype=np.float32).reshape(2, 5), np.array([1.0, -1.0], np.float32)
    body = "(float[2] s, float[2] e) => (float[2] t, float[2] u) { t = Add(s, e) u = Mul(t, e) }"
    how = "num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1]"
    call = f"Scan <BODY, {how}, scan_output_directions = [1]> (w, x)"
    state, made = w, []
    for column in x.T[::-1]:
        state = state + column
        made.insert(0, state * column)
    model = looped(call, body, {"w": w, "x": x}, "float[2, n]", opset)
    agree(by_xla(model, [w, x]), [state, np.stack(made, 1)])


def test_a_loop_whose_steps_depend_on_values_is_refused() -> None:
    inputs = {"x": np.ones(2, np.float32), "w": np.ones(2, np.float32), "n": np.asarray(4)}
    model = looped("Loop <BODY> (n, , x)", COUNTED.format("go = Identity(c)"), inputs, "float[n, 2]")
    with pytest.raises(NotLowered, match="Loop"):
        by_xla(model, list(inputs.values()))
