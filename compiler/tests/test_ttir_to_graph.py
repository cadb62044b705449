"""StableHLO programs as Buda graphs: what becomes ops, what TMs, what stays on the host."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner

from opscope.compiler import api
from opscope.compiler.buda.graph import BudaGraph, NodeKind, TensorShape
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.commands.plan import plan_command
from opscope.compiler.errors import StageFailure
from opscope.compiler.pipelines.buda import lower
from opscope.compiler.tests.planned import attention


def text_of(function, *shapes: tuple[int, ...]) -> str:
    return jax.jit(function).lower(*(jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes)).as_text()


def graph_of(function, *shapes: tuple[int, ...]) -> BudaGraph:
    return lower(api.stablehlo_to_ttir(text_of(function, *shapes)), "test")


def kinds(graph: BudaGraph) -> list[str]:
    return [node.spec.type for node in graph.ops]


def tms_into(graph: BudaGraph, name: str, operand: int = 0) -> list[str]:
    return [str(tm) for tm in graph.operands(name)[operand].tms]


def test_a_layer_is_a_product_and_a_broadcast_on_an_edge() -> None:
    graph = graph_of(lambda x, w, b: jnp.tanh(x @ w + b), (64, 256), (256, 512), (512,))
    assert kinds(graph) == ["matmul", "add", "tanh"]
    assert tms_into(graph, "add_0", 1) == ["tile_broadcast(r)", "broadcast(r, 2)"]
    assert {n.name: n.kind for n in graph.nodes if n.op is None} == {
        "arg0": NodeKind.INPUT,
        "arg1": NodeKind.PARAMETER,
        "arg2": NodeKind.PARAMETER,
        "output0": NodeKind.OUTPUT,
    }
    assert graph.node("matmul_0").shape == TensorShape(1, 1, 2, 16)


def test_heads_are_slices_and_stacks() -> None:
    graph = graph_of(attention, (1, 128, 256), *[(256, 256)] * 4)
    products = [node for node in graph.ops if node.spec.type == "matmul"]
    assert [node.shape.z for node in products] == [1, 1, 4, 1, 4, 1]
    tms = {str(tm) for edge in graph.edges for tm in edge.tms}
    assert {"hslice(4)", "hstack(4)", "transpose"} <= tms
    reduces = [node.spec.reduce_dim for node in graph.ops if node.spec.type == "reduce"]
    assert reduces == ["c", "c"]


def test_a_convolution_gathers_and_multiplies() -> None:
    def convolve(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    graph = graph_of(convolve, (1, 8, 8, 40), (3, 3, 40, 64))
    assert kinds(graph) == ["sparse_matmul", "matmul"]
    assert tms_into(graph, "matmul_0") == ["vslice(9)", "hstack(9)"]
    assert graph.node("matmul_0").shape == TensorShape(1, 1, 2, 2)
    assert graph.node("sparse_matmul_0").spec.math_fidelity == "HiFi2"
    assert graph.operand_shape(graph.operands("matmul_0")[1]) == TensorShape(1, 1, 9 * 2, 2)
    plain = graph_of(
        lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (1, 16, 16, 40),
        (1, 1, 40, 64),
    )
    assert kinds(plain) == ["matmul"]


def test_what_is_made_of_parameters_is_no_op() -> None:
    graph = graph_of(lambda x, w, s: x @ w * (1.0 / jnp.sqrt(s + 1.0)), (32, 32), (32, 32), (32,))
    assert kinds(graph) == ["matmul", "multiply"]


def test_a_vector_that_weights_multiply_is_an_input_and_its_product_the_devices() -> None:
    """The time step of a diffusion model: nothing else goes into its first product; the second one adds a bias."""

    def embedded(step, first, bias, second, x):
        angles = step[:, None] * jnp.arange(1.0, 33.0)
        return x + jnp.tanh(jnp.sin(angles) @ first + bias) @ second

    graph = graph_of(embedded, (1,), (32, 64), (64,), (64, 32), (64, 32))
    assert kinds(graph).count("matmul") == 2
    sources = {node.name: node.kind for node in graph.nodes if node.name.startswith("arg")}
    assert sources["arg2"] is NodeKind.PARAMETER  # the bias
    assert {kind for kind in sources.values() if kind is not NodeKind.PARAMETER} == {NodeKind.INPUT}


def test_every_result_of_an_op_on_the_host_is_the_hosts() -> None:
    graph = graph_of(lambda x: jnp.tanh(jax.lax.top_k(x, 4)[0]) + jax.lax.top_k(x, 4)[1], (8, 64))
    assert kinds(graph) == ["tanh", "add"]


def test_a_result_that_no_op_changes_is_moved_by_one() -> None:
    graph = graph_of(lambda x, y: (x.sum(0), jnp.tanh(y)), (1, 64), (1, 64))
    assert kinds(graph) == ["tanh", "nop"]


def test_division_and_roots_are_what_the_device_has() -> None:
    graph = graph_of(lambda x, y: jax.lax.rsqrt(x) / y, (32, 32), (32, 32))
    assert kinds(graph) == ["sqrt", "reciprocal", "reciprocal", "multiply"]


def test_what_is_not_lowered_says_so() -> None:
    with pytest.raises(StageFailure, match=r"ttir-to-graph: ttir\.floor"):
        graph_of(lambda x: jnp.floor(x), (32, 32))


def test_the_plan_of_an_attention_block_on_both_chips() -> None:
    graph = graph_of(attention, (1, 128, 256), *[(256, 256)] * 4)
    for arch in ("grayskull", "wormhole_b0"):
        buda_plan = plan(graph, budget_of(arch))
        assert [p.op.name for e in buda_plan.epochs for p in e.placements] == [node.name for node in graph.ops]
        assert buda_plan.cuts == ()


def test_opscope_plan_takes_stablehlo(tmp_path) -> None:
    path = tmp_path / "layer.mlir"
    path.write_text(text_of(lambda x, w: jnp.tanh(x @ w), (64, 256), (256, 512)))
    result = CliRunner().invoke(plan_command, [str(path), "--policy", "MinimizeGrid"])
    assert result.exit_code == 0, result.output
    assert "layer: 2 ops on grayskull 10x12, policy MinimizeGrid" in result.output
    path.write_text(text_of(jnp.floor, (32, 32)))
    result = CliRunner().invoke(plan_command, [str(path)])
    assert result.exit_code == 2
    assert "ttir-to-graph: ttir.floor: " in result.stderr


def test_a_padded_maximum_is_padded_with_the_lowest_number_where_something_may_be_negative() -> None:
    same = ("NHWC", "HWIO", "NHWC")

    def windows(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

    def convolve(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=same)

    shapes = (1, 9, 9, 32), (1, 1, 32, 32)
    after_relu = graph_of(lambda x, w: windows(jax.nn.relu(convolve(x, w))), *shapes)
    assert kinds(after_relu) == ["matmul", "nop", "sparse_matmul", "reduce"]
    anything = graph_of(lambda x, w: windows(convolve(x, w)), *shapes)
    assert kinds(anything) == ["matmul", "sparse_matmul", "add", "sparse_matmul", "reduce"]
