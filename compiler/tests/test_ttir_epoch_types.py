"""A training step that JAX differentiated: what each depth leaves, epochs apart, the numbers right."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler.api import planned_binaries
from opscope.compiler.buda.configuration import Configuration
from opscope.compiler.depths import Compilation, CompileDepth, compile_to
from opscope.compiler.dialects.epoch_types import EPOCH_TYPES, epoch_type
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.passes.ttir_epoch_types import TtirEpochTypes
from opscope.compiler.tests import programs
from opscope.simulator.api import Device

ORDER = list(EPOCH_TYPES)


def loss(w: dict[str, Any], x: Any) -> Any:
    """A layer, a relu, a layer."""
    return jnp.sum(jnp.square(jax.nn.relu(x @ w["up"] + w["bias"]) @ w["down"]))


def step(up: Any, bias: Any, down: Any, x: Any) -> list[Any]:
    """The loss, and the weights after a step down the gradient."""
    weights = {"up": up, "bias": bias, "down": down}
    value, gradients = jax.value_and_grad(loss)(weights, x)
    return [value, *(weights[name] - 0.25 * gradients[name] for name in weights)]


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = ((64, 96), (96,), (96, 32), (40, 64))
    return [(rng.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32) for shape in shapes]


def compilation(**options: Any) -> Compilation:
    config = Configuration()
    config.set_configuration_options(**options)
    text = jax.jit(step).lower(*arguments()).as_text(debug_info=True)
    return Compilation(text.encode(), "n150", config, "step")


def names(c: Compilation) -> list[str]:
    return [op.name.removeprefix("ttir.") for op in c.entry.body.block.ops]


def test_each_depth_leaves_other_ops() -> None:
    c = compile_to(compilation(), CompileDepth.OPTIMIZED_GRAPH)
    before = names(c)
    assert {epoch_type(op) for op in c.entry.body.block.ops} == {"forward"}
    assert {"gt", "where"} <= set(before) or {"eq", "where"} <= set(before)
    compile_to(c, CompileDepth.AUTOGRAD)
    *ops, _ = c.entry.body.block.ops
    kinds = [epoch_type(op) for op in ops]
    assert sorted(names(c)) == sorted(before)
    assert kinds == sorted(kinds, key=ORDER.index)
    assert set(kinds) == set(EPOCH_TYPES)
    products = [epoch_type(op) for op in ops if op.name == "ttir.matmul"]
    # Two layers; both weights' gradients, and that of what is between them.
    assert products == ["forward"] * 2 + ["backward"] * 3
    compile_to(c, CompileDepth.POST_AUTOGRAD_PASS)
    after = names(c)
    assert not {"gt", "eq", "where", "neg", "rsqrt"} & set(after)
    *ops, _ = c.entry.body.block.ops
    kinds = [epoch_type(op) for op in ops]
    assert kinds == sorted(kinds, key=ORDER.index)
    assert len(after) > len(before)


def test_epochs_keep_apart_and_numbers_are_jaxs() -> None:
    c = compile_to(compilation(accumulate_df="Float32"))
    assert c.plan is not None
    assert c.netlist is not None
    assert c.program is not None
    assert c.host is not None
    assert {node.spec.epoch_type for node in c.plan.graph.ops} == set(EPOCH_TYPES)
    for epoch in c.plan.epochs:
        assert {p.op.epoch_type for p in epoch.placements} == {epoch.kind}
    assert [g.name.split("_")[0] for g in c.netlist.graphs] == ["fwd", "bwd", "opt"]
    assert [p.name for p in c.netlist.programs] == ["run_fwd_0", "run_bwd_0", "run_opt_0"]
    host, data = planned_binaries(c)
    queues = c.host.queues(Device("n150").load(host).run(arguments()).outputs)
    inputs = [np.ascontiguousarray(queues[name], np.float32) for name in c.program.graph.sources]
    executable = Device(c.board).load(data)
    outs, by_core = executable.run(inputs).outputs, executable.run(inputs, per_core=True).outputs
    golden = [np.asarray(one) for one in programs.jit(step)(*arguments())]
    outputs = dict(zip((number for number, _, _ in c.lowering.results), outs, strict=True))
    for one, other in zip(outs, by_core, strict=True):
        np.testing.assert_array_equal(one, other)
    assert sorted(outputs) == [0, 1, 2, 3]
    assert abs(outputs[0].item() - golden[0].item()) < 0.02 * abs(golden[0].item())
    for number, weights in enumerate(arguments()[:3], 1):
        moved, expected = outputs[number].reshape(weights.shape) - weights, golden[number] - weights
        assert np.corrcoef(np.ravel(moved), np.ravel(expected))[0, 1] > 0.98


def test_nothing_runs_before_what_it_reads_whatever_locations_say() -> None:
    kind = "tensor<32x32xf32>"
    text = f"""
func.func @main(%x: {kind}) -> ({kind}, {kind}) {{
  %0 = stablehlo.tanh %x : {kind} loc("jit(f)/transpose(jvp(g))/tanh")
  %1 = stablehlo.abs %0 : {kind} loc("jit(f)/jvp(g)/abs")
  %2 = stablehlo.add %1, %1 : {kind} loc("jit(f)/optimizer/add")
  %3 = stablehlo.abs %2 : {kind} loc("jit(f)/transpose(jvp(g))/abs")
  return %1, %3 : {kind}, {kind}
}}"""
    c = compile_to(Compilation(text.encode(), "n150"), CompileDepth.AUTOGRAD)
    *ops, _ = c.entry.body.block.ops
    assert [epoch_type(op) for op in ops] == ["backward", "backward", "optimizer", "optimizer"]


def test_inference_is_all_forward() -> None:
    text = jax.jit(lambda x, w: jnp.tanh(x @ w)).lower(*(np.zeros((32, 32), np.float32),) * 2).as_text(debug_info=True)
    c = compile_to(Compilation(text.encode(), "n150"), CompileDepth.AUTOGRAD)
    assert all("buda.epoch_type" not in op.attributes for op in c.entry.body.block.ops)


@pytest.mark.slow
@pytest.mark.export
def test_a_models_training_step_is_planned_run_and_right() -> None:
    """Adam after the backward pass of a registered model: what `--training` exports."""
    from opscope.harness.prepare.export import export_model
    from opscope.models import registry
    from opscope.models.seeding import draw
    from opscope.models.training import step as training_step

    model = registry.get("mnist_mlp")
    exported = export_model(model, training=True)
    args = [draw(spec.law, spec.shape, spec.dtype, 0, i) for i, spec in enumerate(exported.arguments)]
    c = compile_to(Compilation(exported.bytecode, "e150", name="mnist_mlp+training"))
    assert c.plan is not None
    assert c.program is not None
    assert c.host is not None
    assert {epoch.kind for epoch in c.plan.epochs} == set(EPOCH_TYPES)
    host, data = planned_binaries(c)
    queues = c.host.queues(Device("n150").load(host).run(args).outputs)
    executable = Device(c.board).load(data)
    inputs = [np.ascontiguousarray(queues[name], np.float32) for name in c.program.graph.sources]
    outs, by_core = executable.run(inputs).outputs, executable.run(inputs, per_core=True).outputs
    built = training_step(model.build("float32"))
    names = [spec.name for spec in built.arguments]
    golden = jax.tree.leaves(programs.jit(lambda *a: built.forward(dict(zip(names, a, strict=True))))(*args))
    for (number, _, _), out, placed in zip(c.lowering.results, outs, by_core, strict=True):
        np.testing.assert_array_equal(out, placed)
        expected = np.asarray(golden[number])
        assert np.linalg.norm(out.reshape(expected.shape) - expected) < 0.06 * np.linalg.norm(expected), number


def test_a_program_that_is_one_pass_says_so() -> None:
    """An optimizer alone has no location that tells; its epochs are an optimizer's, and so is its program."""
    c = Compilation(
        b"func.func @main(%w: tensor<32x32xf32>, %g: tensor<32x32xf32>) -> tensor<32x32xf32> {\n"
        b"  %0 = stablehlo.subtract %w, %g : tensor<32x32xf32>\n"
        b"  return %0 : tensor<32x32xf32> }",
        "n150",
        epoch_type="optimizer",
        single_op=True,
    )
    compile_to(c)
    assert c.netlist is not None
    assert [g.name for g in c.netlist.graphs] == ["opt_0_0_temporal_epoch_0"]
    assert [p.name for p in c.netlist.programs] == ["run_opt_0"]
    with pytest.raises(CompilerInputError, match=r"expected only=forward\|backward\|optimizer, got 'loss'"):
        TtirEpochTypes("loss")


def test_results_that_no_device_computes_are_the_hosts() -> None:
    """A constant, an argument as it came, and integers: the host's part has them beside the queues."""
    c = Compilation(
        b"func.func @main(%x: tensor<4x4xf32>, %i: tensor<3xi32>)\n"
        b"    -> (tensor<f32>, tensor<4x4xf32>, tensor<3xi32>, tensor<4x4xf32>) {\n"
        b"  %0 = stablehlo.constant dense<2.5> : tensor<f32>\n"
        b"  %1 = stablehlo.tanh %x : tensor<4x4xf32>\n"
        b"  %2 = stablehlo.add %i, %i : tensor<3xi32>\n"
        b"  return %0, %1, %2, %x : tensor<f32>, tensor<4x4xf32>, tensor<3xi32>, tensor<4x4xf32> }",
        "n150",
        single_op=True,
    )
    compile_to(c)
    assert c.host is not None
    assert [number for number, _, _ in c.lowering.results] == [1]
    x, i = np.arange(16, dtype=np.float32).reshape(4, 4), np.arange(3, dtype=np.int32)
    results = Device("n150").load(planned_binaries(c)[0]).run([x, i]).outputs
    on_host = c.host.results(results)
    assert sorted(on_host) == [0, 2, 3]
    assert on_host[0].item() == 2.5
    np.testing.assert_array_equal(on_host[2], 2 * i)
    np.testing.assert_array_equal(on_host[3], x)
    np.testing.assert_array_equal(c.host.queues(results)["arg0"].reshape(4, 4), x)
