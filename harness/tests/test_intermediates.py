"""Values inside a model: each beside the golden of its op, and the op named whose own error it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.harness.backends.base import Job, Target
from opscope.harness.backends.reference import Reference
from opscope.harness.prepare.mlir.door import load
from opscope.harness.prepare.mlir.tagged import tagged
from opscope.harness.prepare.split import split_module
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.verdict.intermediates import Watch

CHAIN = """func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.tanh %0 : tensor<8x4xf32>
  %2 = stablehlo.exponential %1 : tensor<8x4xf32>
  %3 = stablehlo.abs %2 : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}"""
CALLS = """
func.func private @twice(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func @main(%x: tensor<4x4xf32>, %n: tensor<i32>) -> tensor<4x4xf32> {
  %0 = func.call @twice(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = func.call @twice(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %2:2 = stablehlo.while(%i = %n, %v = %1) : tensor<i32>, tensor<4x4xf32>
    cond {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %t = stablehlo.tanh %v : tensor<4x4xf32>
      %d = stablehlo.subtract %i, %one : tensor<i32>
      stablehlo.return %d, %t : tensor<i32>, tensor<4x4xf32>
    }
  %3 = stablehlo.negate %2#1 : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
"""
TURNED = """func.func @main(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = stablehlo.exponential %1 : tensor<32x32xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %4 = stablehlo.abs %3 : tensor<32x32xf32>
  return %4 : tensor<32x32xf32>
}"""
CONVOLVED = """func.func @main(%x: tensor<1x8x8x8xf32>, %w: tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32>
  %1 = stablehlo.tanh %0 : tensor<1x8x8x8xf32>
  %2 = stablehlo.convolution(%1, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32>
  %3 = stablehlo.exponential %2 : tensor<1x8x8x8xf32>
  return %3 : tensor<1x8x8x8xf32>
}"""
EXACT = Target(card_type="host", float_format=None, math_fidelity="exact")


@pytest.fixture
def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in ((8, 16), (16, 4))]


def verdicts(arrays: list[np.ndarray], device: dict[str, np.ndarray]) -> Watch:
    watch = Watch(split_module(CHAIN), arrays, EXACT, None)
    watch.begin(frozenset(device))
    for path, value in device.items():
        watch.seen(path, lambda value=value: [value])
    watch.close()
    return watch


def test_the_op_that_is_wrong_is_told_from_those_that_pass_its_error_on(arrays: list[np.ndarray]) -> None:
    dot = arrays[0] @ arrays[1]
    wrong = np.tanh(dot) + np.float32(0.05)
    device = {"main/0": dot, "main/1": wrong, "main/2": np.exp(wrong), "main/3": np.abs(np.exp(wrong))}
    watch = verdicts(arrays, device)
    assert {one.path: one.verdict for one in watch.in_order()} == {
        "main/0": "right", "main/1": "jump", "main/2": "right", "main/3": "right",
    }  # fmt: skip
    jump = watch.first_jump()
    assert jump is not None
    assert (jump.path, jump.op_name, jump.confirmed) == ("main/1", "stablehlo.tanh", True)
    assert jump.error_before is not None
    assert jump.error is not None
    assert jump.error_before < 1e-5 < 1e-2 < jump.error
    assert jump.pcc is not None
    assert jump.pcc_before is not None


def test_an_op_that_only_enlarges_an_error_is_no_jump(arrays: list[np.ndarray]) -> None:
    dot = (arrays[0] @ arrays[1]) * np.float32(1 + 1e-5) + np.float32(1e-4)
    device = {"main/0": dot, "main/1": np.tanh(dot), "main/2": np.exp(np.tanh(dot))}
    watch = verdicts(arrays, {**device, "main/3": device["main/2"] + np.float32(0.3)})
    assert [one.verdict for one in watch.in_order()][1:] == ["right", "right", "jump"]


def test_what_a_compiler_fused_is_judged_as_one_by_its_coarsest_op(arrays: list[np.ndarray]) -> None:
    tf32 = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in arrays]
    right, wrong = (np.exp(np.tanh(tf32[0] @ tf32[1]) + np.float32(off)) for off in (0.0, 0.05))
    device = Target(card_type="sim-n150", float_format=None, math_fidelity="HiFi4", matrix_format="Tf32")
    for value, verdict in ((right, "right"), (wrong, "jump")):
        watch = Watch(split_module(CHAIN), arrays, device, None)
        watch.begin(frozenset({"main/2"}))
        watch.seen("main/2", lambda value=value: [value])
        watch.close()
        assert [one.verdict for one in watch.in_order()] == [verdict]


def test_nan_where_none_should_be_is_a_jump(arrays: list[np.ndarray]) -> None:
    dot = arrays[0] @ arrays[1]
    broken = np.tanh(dot)
    broken[0, 0] = np.nan
    jump = verdicts(arrays, {"main/0": dot, "main/1": broken}).first_jump()
    assert jump is not None
    assert (jump.path, jump.error) == ("main/1", None)


def watched(module: str, inputs: list[np.ndarray], folder: Path, level: int = 0, roles: tuple[str, ...] = ()) -> Watch:
    """The values of a module that the reference compiler and device made."""
    split = split_module(module)
    results = (split.values[split.program.results[0]],)
    job = Job("model", tagged(module), inputs, ResultOptions(optimization_level=level), results, roles)
    backend = Reference()
    job.watch = watch = Watch(split, inputs, backend.target(job.options), folder)
    for stage in backend.stages:
        backend.climb(stage, job)
    watch.close()
    return watch


def test_every_value_of_calls_and_of_loops_is_met_on_the_device(tmp_path: Path) -> None:
    inputs = [np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32), np.array(3, np.int32)]
    watch = watched(CALLS, inputs, tmp_path)
    assert {one.path for one in watch.in_order()} == set(watch.nodes)
    assert {one.verdict for one in watch.in_order()} <= {"right", "amplifies"}
    assert {"main/0@twice/0", "main/1@twice/0", "main/3.body/0", "main/3.cond/1", "main/4"} <= set(watch.found)


@pytest.mark.parametrize(
    ("module", "shown"),
    [
        # The transposes cancel, the exponential runs on what was not turned: by its shape alone it cannot be told.
        (TURNED, ["main/0", "main/2", "main/4"]),
        # The permutations between the convolutions go, and tanh is computed with the first.
        (CONVOLVED, ["main/1", "main/2", "main/3"]),
    ],
)
def test_a_value_that_lies_otherwise_is_compared_as_the_program_has_it(
    tmp_path: Path, module: str, shown: list[str]
) -> None:
    shapes = [desc.shape for desc in map(split_module(module).values.__getitem__, (0, 1))]
    inputs = [np.random.default_rng(1).normal(scale=0.2, size=shape).astype(np.float32) for shape in shapes]
    watch = watched(module, inputs, tmp_path, 2)
    assert {one.path: one.verdict for one in watch.in_order()} == dict.fromkeys(shown, "right")


@pytest.mark.parametrize("level", [0, 2])
def test_of_a_composite_only_what_it_returns_is_its_value(tmp_path: Path, level: int) -> None:
    module = """
    func.func private @twice_and_one(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %0 = stablehlo.add %a, %a : tensor<8x16xf32>
      %1 = func.call @up(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
      return %1 : tensor<8x16xf32>
    }
    func.func private @up(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %0 = stablehlo.exponential %a : tensor<8x16xf32>
      %1 = stablehlo.tanh %0 : tensor<8x16xf32>
      return %1 : tensor<8x16xf32>
    }
    func.func @main(%x: tensor<8x16xf32>, %w: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %0 = stablehlo.composite "my.twice" %x {decomposition = @twice_and_one} : (tensor<8x16xf32>) -> tensor<8x16xf32>
      %1 = stablehlo.add %0, %w : tensor<8x16xf32>
      return %1 : tensor<8x16xf32>
    }"""
    inputs = [np.random.default_rng(n).normal(size=(8, 16)).astype(np.float32) for n in range(2)]
    watch = watched(module, inputs, tmp_path, level)
    assert {one.path: one.verdict for one in watch.in_order()} == dict.fromkeys(("main/0", "main/1"), "right")
    text = load(tagged(module)).operation.get_asm(enable_debug_info=True, pretty_debug_info=True)
    # The composite, the call that makes its result, and what that returns.
    assert text.count('= "main/0"(') == 3, text


def test_what_is_computed_once_of_parameters_is_seen_too(tmp_path: Path) -> None:
    module = """func.func @main(%x: tensor<8x16xf32>, %w: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %0 = stablehlo.exponential %w : tensor<8x16xf32>
      %1 = stablehlo.abs %0 : tensor<8x16xf32>
      %2 = stablehlo.add %x, %1 : tensor<8x16xf32>
      return %2 : tensor<8x16xf32>
    }"""
    inputs = [np.random.default_rng(n).normal(size=(8, 16)).astype(np.float32) for n in range(2)]
    watch = watched(module, inputs, tmp_path, 1, ("input", "parameter"))
    # What loads the results carries the place of the first op, and is not taken for its value.
    assert {one.path: one.verdict for one in watch.in_order()} == dict.fromkeys(("main/0", "main/1", "main/2"), "right")
