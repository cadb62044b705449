"""Formats of single ops: which ops and queues a rule reaches."""

from __future__ import annotations

from typing import Any

import pytest

from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import BudaGraph, Node, NodeKind, OpSpec, TensorShape
from opscope.compiler.buda.op_precision import OpPrecision
from opscope.compiler.errors import CompilerInputError

TILE = TensorShape(1, 1, 1, 1)


def network() -> BudaGraph:
    """exp of x, which is one result, times w, which is the other; and a sum of integers."""
    nodes = (
        Node("x", NodeKind.INPUT, TILE, "Float32"),
        Node("w", NodeKind.PARAMETER, TILE, "Float32"),
        Node("i", NodeKind.INPUT, TILE, "Int32"),
        Node("exp", NodeKind.OP, TILE, "Float32", OpSpec("exp", "HiFi3", "Float32", "Float32")),
        Node("mm", NodeKind.OP, TILE, "Float32", OpSpec("matmul", "HiFi3", "Float32", "Float32")),
        Node("sum", NodeKind.OP, TILE, "Int32", OpSpec("add", "HiFi3", "Int32")),
        Node("y", NodeKind.OUTPUT, TILE, "Float32"),
        Node("z", NodeKind.OUTPUT, TILE, "Float32"),
        Node("n", NodeKind.OUTPUT, TILE, "Int32"),
    )
    edges = graphs.arrows("x>exp exp>mm w>mm i>sum i>sum exp>y mm>z sum>n")
    return BudaGraph("network", nodes, edges)


def changed(**settings: Any) -> dict[str, Any]:
    """What a rule changes: format of each node, and of ops accumulator, intermediate and fidelity."""

    def seen(graph: BudaGraph) -> dict[str, Any]:
        return {
            node.name: (node.data_format, *((s.acc_format, s.intermediate_format, s.math_fidelity) if s else ()))
            for node in graph.nodes
            for s in (node.op,)
        }

    before, after = seen(network()), seen(OpPrecision.of(settings).applied(network()))
    return {name: value for name, value in after.items() if value != before[name]}


def test_a_rule_changes_the_ops_that_it_means_and_their_queues() -> None:
    kept = ("Float32", "Float32", "HiFi3")
    # Only the results of ops that are meant are read in the new format.
    assert changed(op_type="exp", output_df="Float16_b") == {"exp": ("Float16_b", *kept), "y": ("Float16_b",)}
    assert changed(name_regex="m.", output_df="Float16_b") == {"mm": ("Float16_b", *kept), "z": ("Float16_b",)}
    assert changed(name_regex="m", output_df="Float16_b") == {}
    # What is read from a queue has its format changed there; a result keeps its own.
    assert changed(op_type="matmul", input_df={0: "Bfp8_b", 1: "Bfp4_b"}) == {"w": ("Bfp4_b",)}
    assert changed(op_type="exp", input_df={0: "Bfp8_b"}) == {"x": ("Bfp8_b",)}
    assert changed(op_type="exp", accumulate_df="Float16", intermediate_df="Bfp8", math_fidelity="LoFi") == {
        "exp": ("Float32", "Float16", "Bfp8", "LoFi")
    }
    # Integers are never meant.
    assert set(changed(math_fidelity="LoFi")) == {"exp", "mm"}
    assert set(changed(math_fidelity="LoFi", is_gradient_op=False)) == {"exp", "mm"}
    assert changed(math_fidelity="LoFi", is_gradient_op=True) == {}
    assert set(changed(math_fidelity="LoFi", epoch_type="Forward")) == {"exp", "mm"}
    assert changed(math_fidelity="LoFi", epoch_type="backward") == {}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"wobble": 1}, "precision: expected op_type, "),
        ({"output_df": "Float17"}, "output_df: expected a number format, got 'Float17'"),
        ({"output_df": "Int32"}, "output_df: expected a format of floats, got Int32"),
        ({"input_df": {0: "Int32"}}, "input_df: expected a format of floats, got Int32"),
        ({"math_fidelity": "HiFi9"}, "math_fidelity: expected LoFi, HiFi2, HiFi2_B, HiFi3, HiFi4, got 'HiFi9'"),
        ({"epoch_type": "sideways"}, "epoch_type: expected forward, backward, optimizer, got 'sideways'"),
        ({"name_regex": "("}, "name_regex: expected a regular expression, got '('"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CompilerInputError) as caught:
        OpPrecision.of(settings)
    assert message in str(caught.value)
