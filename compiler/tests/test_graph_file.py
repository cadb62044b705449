"""Graph files and the word for one product: what stands in them is in the graph, and defaults are as documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.compiler.buda.graph import BudaGraph, NodeKind, OpSpec, TensorShape, Tm
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand, result_shape
from opscope.compiler.buda.graph_file import matmul_graph, read_graph
from opscope.compiler.buda.sparse_pattern import Windows
from opscope.compiler.errors import CompilerInputError


@pytest.mark.parametrize(
    ("word", "data_format", "fidelity"),
    [
        ("matmul:64x96x33", "Float16_b", "HiFi3"),
        ("matmul:64x96x33:Bfp8_b", "Bfp8_b", "HiFi3"),
        ("matmul:64x96x33:Float32:LoFi", "Float32", "LoFi"),
    ],
)
def test_a_product_by_one_word(word: str, data_format: str, fidelity: str) -> None:
    graph = matmul_graph(word)
    shapes = {node.name: (node.shape.rt, node.shape.ct, node.data_format) for node in graph.nodes}
    assert shapes == {
        "x": (2, 3, data_format),
        "w": (3, 2, data_format),
        "matmul": (2, 2, data_format),
        "y": (2, 2, data_format),
    }
    assert graph.node("matmul").spec.math_fidelity == fidelity
    assert [graph.node(name).kind for name in "xw"] == [NodeKind.INPUT, NodeKind.PARAMETER]


def test_the_smallest_product_is_one_element() -> None:
    assert [str(node.shape) for node in matmul_graph("matmul:1x1x1").nodes] == ["1x1x1 tiles"] * 4


@pytest.mark.parametrize(
    "word",
    [
        "matmul:64x96",
        "matmul:0x1x1",
        "matmul:1x1x0",
        "matmul:64x0x32",
        "matmul:axbxc",
        "matmul:1x1x1:Float32:LoFi:more",
    ],
)
def test_what_is_no_product_is_one_line(word: str) -> None:
    with pytest.raises(CompilerInputError, match=r"expected matmul:MxKxN\[:format\[:fidelity\]\], got '" + word):
        matmul_graph(word)


def read(folder: Path, text: str) -> BudaGraph:
    file = folder / "some.yaml"
    file.write_text(text)
    return read_graph(file)


def test_a_file_says_formats_fidelity_and_outputs(tmp_path: Path) -> None:
    graph = read(
        tmp_path,
        """
        data_format: Bfp8_b
        math_fidelity: LoFi
        nodes:
          x: {input: [64, 32]}
          w: {parameter: [32, 96], data_format: Float16}
          c: {constant: [64, 96]}
          up: {op: matmul, inputs: [x, w], math_fidelity: HiFi4}
          sum: {op: add, inputs: [up, c], data_format: Float32, relu: true}
        outputs: [sum | transpose, up]
        """,
    )
    assert graph.name == "some"
    assert {node.name: node.data_format for node in graph.nodes} == {
        "x": "Bfp8_b",
        "w": "Float16",
        "c": "Bfp8_b",
        "up": "Bfp8_b",
        "sum": "Float32",
        "sum.output": "Float32",
        "up.output": "Bfp8_b",
    }
    assert [graph.node(name).kind.value for name in "xwc"] == ["input", "parameter", "constant"]
    assert [op.spec.math_fidelity for op in graph.ops] == ["HiFi4", "LoFi"]
    assert [op.spec.relu for op in graph.ops] == [False, True]
    assert (graph.node("sum.output").shape.rt, graph.node("sum.output").shape.ct) == (3, 2)


def test_a_file_says_a_convolution(tmp_path: Path) -> None:
    """8 x 8 pixels, a kernel of 3 x 3 with a stride of 2: 4 x 4 pixels, one tile of rows for each of 9 taps."""
    graph = read(
        tmp_path,
        """
        nodes:
          p: {convolution: {size: [8, 8], kernel: [3, 3], stride: [2, 2], padding: [[0, 1], [0, 1]]}}
          x: {input: [64, 32]}
          gather: {op: sparse_matmul, inputs: [p, x]}
        """,
    )
    picker, gather = graph.node("p"), graph.node("gather")
    assert (picker.kind, picker.data_format) == (NodeKind.CONSTANT, "Bfp2_b")
    assert (picker.shape.rt, picker.shape.ct) == (9, 2)
    assert (gather.shape.rt, gather.shape.ct) == (9, 1)
    assert gather.spec.pattern.taps == 9


def test_a_convolution_moves_by_one_without_edges_by_default(tmp_path: Path) -> None:
    def gather(more: str = "", of_picker: str = "") -> BudaGraph:
        picker = f"p: {{convolution: {{size: [8, 9], kernel: [3, 2]{more}}}{of_picker}}}"
        return read(tmp_path, f"nodes: {{{picker}, x: {{input: [96, 32]}}, g: {{op: sparse_matmul, inputs: [p, x]}}}}")

    plain = gather()
    assert str(plain.node("p").shape) == "1x12x3 tiles"  # 6 taps of 6 x 8 pixels, over 72
    assert plain.node("g").spec.pattern.windows == Windows((8, 9), (3, 2), (1, 1), ((0, 0), (0, 0)), (1, 1))
    more = gather(", stride: [2, 3], padding: [[0, 1], [2, 3]], dilation: [1, 2]")
    assert more.node("g").spec.pattern.windows == Windows((8, 9), (3, 2), (2, 3), ((0, 1), (2, 3)), (1, 2))
    formats = [made.node("p").data_format for made in (plain, gather(of_picker=", data_format: Bfp8"))]
    assert formats == ["Bfp2_b", "Bfp8"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[]",
            "expected a mapping with `nodes`, got none; try nodes: {x: {input: [32, 64]}, y: {op: gelu, inputs: [x]}}",
        ),
        (
            "{nodes: [x]}",
            "expected a mapping with `nodes`, got none; try nodes: {x: {input: [32, 64]}, y: {op: gelu, inputs: [x]}}",
        ),
        ("nodes: {x: {}}", "x: expected input, parameter, constant, convolution or op, got []"),
        ("nodes: {x: 3}", "x: expected a mapping, such as {input: [32, 64]}, got 3"),
        ("nodes: {x: {op: exp}}", "x: inputs: expected a list of names, such as [x, w], got None"),
        ("nodes: {x: {op: exp, inputs: [[y]]}}", "x: inputs: expected a list of names, such as [x, w], got [['y']]"),
        ("nodes: {x: {input: [4]}}\noutputs: x", "outputs: expected a list of names, such as [x, w], got 'x'"),
        ("nodes: {x: {input: 32}}", "x: input: expected a list of positive sizes, such as [32, 64], got 32"),
        ("nodes: {x: {input: []}}", "x: input: expected a list of positive sizes, such as [32, 64], got []"),
        (
            "nodes: {x: {parameter: [1, 0]}}",
            "x: parameter: expected a list of positive sizes, such as [32, 64], got [1, 0]",
        ),
    ],
)
def test_a_file_that_is_no_graph_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CompilerInputError) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 'some.yaml'}: {message}"
    gone = tmp_path / "gone.yaml"
    with pytest.raises(CompilerInputError) as caught:
        read_graph(gone)
    assert str(caught.value) == f"{gone}: expected a readable graph file, got: no such file or directory"


def test_shapes_of_results_follow_from_operands() -> None:
    left, right = TensorShape(1, 2, 3, 4), TensorShape(1, 2, 4, 5)
    for kind in ("matmul", "sparse_matmul", "depthwise"):
        assert result_shape("m", OpSpec(kind), [left, right]) == TensorShape(1, 2, 3, 5)
    reduced = {dim: str(result_shape("r", OpSpec("reduce", reduce_dim=dim), [left])) for dim in "zrc"}
    assert reduced == {"z": "1x3x4 tiles", "r": "2x1x4 tiles", "c": "2x3x1 tiles"}
    assert result_shape("a", OpSpec("add"), [left, right]) == left
    for spec, shapes, message in (
        (OpSpec("add"), [], "expected operands, got none"),
        (OpSpec("matmul"), [left], "expected two operands, got one"),
        (OpSpec("reduce", reduce_dim="w"), [left], "expected reduce_dim r, c or z, got 'w'"),
    ):
        with pytest.raises(CompilerInputError, match=f"^n: {message}$"):
            result_shape("n", spec, shapes)


def test_a_builder_has_a_format_of_its_own_and_each_name_once() -> None:
    builder, tiles = GraphBuilder("b", "Bfp8"), TensorShape(1, 1, 2, 3)
    x = builder.source("x", NodeKind.INPUT, tiles)
    y = builder.op("y", OpSpec("exp"), [builder.source("w", NodeKind.INPUT, tiles, "Float16")], "Int8")
    wide = builder.op("z", OpSpec("splice"), [x], shape=TensorShape(1, 1, 7, 9))
    builder.output("o", Operand(y.producer, (Tm("transpose"),)))
    builder.output("p", wide)
    graph = builder.graph()
    assert [(node.name, node.data_format, str(node.shape)) for node in graph.nodes] == [
        ("x", "Bfp8", "1x2x3 tiles"),
        ("w", "Float16", "1x2x3 tiles"),
        ("y", "Int8", "1x2x3 tiles"),
        ("z", "Bfp8", "1x7x9 tiles"),
        ("o", "Int8", "1x3x2 tiles"),
        ("p", "Bfp8", "1x7x9 tiles"),
    ]
    assert [(e.producer, e.consumer, e.operand) for e in graph.edges] == [
        ("w", "y", 0),
        ("x", "z", 0),
        ("y", "o", 0),
        ("z", "p", 0),
    ]
    with pytest.raises(CompilerInputError, match=r"^graph b: expected unique names, got x twice$"):
        builder.source("x", NodeKind.INPUT, tiles)
