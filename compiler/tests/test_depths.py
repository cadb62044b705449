"""Each compile depth leaves what it is for, and nothing of the next."""

from __future__ import annotations

from typing import Any

import pytest

from opscope.compiler.depths import STEPS, Compilation, CompileDepth, compile_to, step
from opscope.compiler.errors import CompilerInputError, StageFailure

MODULE = b"""
func.func @main(%x: tensor<64x96xf32>, %w: tensor<96x32xf32>) -> tensor<64x32xf32> {
  %a = stablehlo.transpose %w, dims = [1, 0] : (tensor<96x32xf32>) -> tensor<32x96xf32>
  %b = stablehlo.transpose %a, dims = [1, 0] : (tensor<32x96xf32>) -> tensor<96x32xf32>
  %0 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0]
    : (tensor<64x96xf32>, tensor<96x32xf32>) -> tensor<64x32xf32>
  %1 = stablehlo.negate %0 : tensor<64x32xf32>
  %2 = stablehlo.tanh %1 : tensor<64x32xf32>
  return %2 : tensor<64x32xf32>
}"""


def left(c: Compilation) -> dict[str, Any]:
    """What there is of a compilation."""
    names = [op.name.removeprefix("ttir.") for op in c.entry.body.block.ops] if c.ttir is not None else []
    return {
        "stablehlo": c.initial is not None,
        "ttir": bool(names),
        "host": bool(c.on_host),
        "permutes": names.count("permute"),
        "negations": names.count("neg"),
        "walked": c.lowering is not None,
        "fused": sum(node.spec.fused is not None for node in c.graph.ops) if c.graph is not None else None,
        "epochs": len(c.plan.epochs) if c.plan is not None else 0,
        "program": c.program is not None,
        "netlist": "fused_ops:" in c.netlist_text,
    }


CHANGES: dict[CompileDepth, dict[str, Any]] = {
    CompileDepth.INIT_COMPILE: {},
    CompileDepth.GENERATE_INITIAL_GRAPH: {"stablehlo": True},
    CompileDepth.POST_INITIAL_GRAPH_PASS: {"ttir": True, "permutes": 2, "negations": 1},
    CompileDepth.CONSTEVAL_GRAPH: {"host": True},
    CompileDepth.POST_PATTERN_MATCHER: {},
    CompileDepth.OPTIMIZED_GRAPH: {"permutes": 0},
    CompileDepth.AUTOGRAD: {},
    CompileDepth.POST_AUTOGRAD_PASS: {"negations": 0},
    CompileDepth.PRE_LOWERING_PASS: {"walked": True},
    CompileDepth.BUDA_GRAPH_PRE_PLACER: {"fused": 1},
    CompileDepth.BALANCER_PASS: {"epochs": 1},
    CompileDepth.PRE_NETLIST_PASS: {"program": True},
    CompileDepth.GENERATE_NETLIST: {"netlist": True},
}
"""Depth -> what it changes; AUTOGRAD's marks are in test_ttir_epoch_types.py, repeated layers below."""


def test_each_depth_changes_what_it_is_for() -> None:
    assert list(CHANGES) == list(STEPS)
    c = Compilation(MODULE, "n150")
    expected = left(c)
    for depth, changed in CHANGES.items():
        step(c, depth)
        expected |= changed
        assert left(c) == expected, depth


def test_repeated_layers_are_found() -> None:
    body = "".join(
        f"  %{i + 1} = stablehlo.tanh %{i} : tensor<32x32xf32>\n  %e{i} = stablehlo.abs %{i + 1} : tensor<32x32xf32>\n"
        for i in range(4)
    )
    text = f"func.func @main(%0: tensor<32x32xf32>) -> tensor<32x32xf32> {{\n{body}  return %e3 : tensor<32x32xf32>\n}}"
    c = compile_to(Compilation(text.encode(), "n150"), CompileDepth.POST_PATTERN_MATCHER)
    assert c.repeats is not None
    assert (c.repeats.length, c.repeats.count) == (2, 4)


def test_what_leaves_nothing_to_plan_stays_on_the_host() -> None:
    text = """
func.func @main(%x: tensor<8x1xf32>) -> tensor<8xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [1]
    : (tensor<8x1xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
    with pytest.raises(StageFailure, match="stays on the host") as caught:
        compile_to(Compilation(text.encode(), "n150", single_op=True))
    assert caught.value.kind == "host"


def test_an_unknown_depth_is_one_line() -> None:
    assert CompileDepth.of("balancer-pass") is CompileDepth.of("BALANCER_PASS") is CompileDepth.BALANCER_PASS
    with pytest.raises(CompilerInputError, match="got 'BALANCE'; try BALANCER_PASS"):
        CompileDepth.of("BALANCE")
