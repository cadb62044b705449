"""Graph files and the word for one product: what stands in them is in the graph, and defaults are as documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.compiler.buda.graph import BudaGraph, NodeKind
from opscope.compiler.buda.graph_file import matmul_graph, read_graph
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
        "x": (2, 3, data_format), "w": (3, 2, data_format), "matmul": (2, 2, data_format), "y": (2, 2, data_format),
    }  # fmt: skip
    assert graph.node("matmul").spec.math_fidelity == fidelity
    assert [graph.node(name).kind for name in "xw"] == [NodeKind.INPUT, NodeKind.PARAMETER]


@pytest.mark.parametrize("word", ["matmul:64x96", "matmul:64x0x32", "matmul:axbxc", "matmul:1x1x1:Float32:LoFi:more"])
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
        "x": "Bfp8_b", "w": "Float16", "c": "Bfp8_b", "up": "Bfp8_b", "sum": "Float32",
        "sum.output": "Float32", "up.output": "Bfp8_b",
    }  # fmt: skip
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
