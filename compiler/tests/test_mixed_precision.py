"""Mixed precision by its table: what each level does to products, other ops, inputs and what is no float."""

from __future__ import annotations

from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import BudaGraph, Node, NodeKind, OpSpec, TensorShape
from opscope.compiler.buda.mixed_precision import FORMATS, LEVELS, mixed_precision

ONE = TensorShape(1, 1, 1, 1)


def network() -> BudaGraph:
    """gelu(x @ w + b) * depthwise(x, v), an integer and a picker's format beside it."""
    nodes = (
        *(Node(name, NodeKind.INPUT, ONE, "Float32") for name in "xwbv"),
        Node("i", NodeKind.INPUT, ONE, "Int32"),
        Node("p", NodeKind.CONSTANT, ONE, "Bfp2_b"),
        Node("mm", NodeKind.OP, ONE, "Float32", OpSpec("matmul", "HiFi4", "Float32", "Float32")),
        Node("add", NodeKind.OP, ONE, "Float32", OpSpec("add", "HiFi4", "Float32", "Float32")),
        Node("gelu", NodeKind.OP, ONE, "Float32", OpSpec("gelu", "HiFi4", "Float32", "Float32")),
        Node("deep", NodeKind.OP, ONE, "Float32", OpSpec("depthwise", "HiFi4", "Float32", "Float32")),
        Node("mul", NodeKind.OP, ONE, "Float32", OpSpec("multiply", "HiFi4", "Float32")),
        Node("int", NodeKind.OP, ONE, "Int32", OpSpec("abs", "HiFi4", "Int32")),
    )
    edges = graphs.arrows("x>mm w>mm mm>add b>add add>gelu x>deep v>deep gelu>mul deep>mul i>int")
    return BudaGraph("network", nodes, edges)


def formats(graph: BudaGraph) -> dict[str, str]:
    return {node.name: node.data_format for node in graph.nodes}


def inside(graph: BudaGraph) -> dict[str, tuple[str, str, str]]:
    return {op.name: (op.spec.acc_format, op.spec.intermediate_format, op.spec.math_fidelity) for op in graph.ops}


def test_level_0_changes_nothing() -> None:
    assert mixed_precision(network(), 0) == network()
    assert (LEVELS, sorted(FORMATS)) == ((0, 1, 2), [1, 2])


def test_level_1_narrows_products_and_what_they_read() -> None:
    graph = mixed_precision(network(), 1)
    assert formats(graph) == {
        "x": "Bfp8_b",
        "w": "Bfp8_b",
        "b": "Float32",
        "v": "Bfp8_b",
        "i": "Int32",
        "p": "Bfp2_b",
        "mm": "Bfp8_b",
        "add": "Float32",
        "gelu": "Float32",
        "deep": "Bfp8_b",
        "mul": "Float32",
        "int": "Int32",
    }
    kept = ("Float32", "Float32", "HiFi4")
    product = ("Float16_b", "Bfp8_b", "HiFi2")
    assert inside(graph) == {
        "mm": product,
        "add": kept,
        "gelu": kept,
        "deep": product,
        "mul": ("Float32", "", "HiFi4"),
        "int": ("Int32", "", "HiFi4"),
    }


def test_level_2_holds_everything_with_the_exponents_of_float16() -> None:
    graph = mixed_precision(network(), 2)
    assert formats(graph) == {
        "x": "Bfp8",
        "w": "Bfp8",
        "b": "Float16",
        "v": "Bfp8",
        "i": "Int32",
        "p": "Bfp2_b",
        "mm": "Bfp8",
        "add": "Float16",
        "gelu": "Float16",
        "deep": "Bfp8",
        "mul": "Float16",
        "int": "Int32",
    }
    product = ("Float16", "Float16", "HiFi4")
    assert inside(graph) == {
        "mm": product,
        "add": ("Float16", "Float32", "HiFi4"),
        "gelu": ("Float16", "Bfp8", "HiFi4"),
        "deep": product,
        "mul": ("Float16", "", "HiFi4"),
        "int": ("Int32", "", "HiFi4"),
    }


def test_what_an_op_makes_is_no_input_of_a_product() -> None:
    """Only the host's data is narrowed for a product; an op's result keeps its own format at level 1."""
    graph = mixed_precision(graphs.product_of_products(), 1)
    assert formats(graph)["v"] == "Bfp8_b"
    chained = mixed_precision(graphs.two_matmuls(), 1)
    assert {name: chained.node(name).data_format for name in ("x", "w", "left", "right", "product")} == {
        "x": "Float16_b",
        "w": "Float16_b",
        "left": "Float16_b",
        "right": "Float16_b",
        "product": "Bfp8_b",
    }
    gather = mixed_precision(graphs.one_tap_convolution(), 1)
    assert (gather.node("gather").data_format, gather.node("x").data_format) == ("Float16_b", "Float16_b")
    assert gather.node("gather").spec == graphs.one_tap_convolution().node("gather").spec
