"""Whole models that draw random numbers: judged by what follows from the numbers that the backend has drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.harness.backends import registry
from opscope.harness.lanes.ladder import climb
from opscope.harness.prepare import mlir
from opscope.harness.prepare.input_distributions import argument_distributions
from opscope.harness.prepare.inputs import row_inputs
from opscope.harness.prepare.mlir.drawn import with_draws_given, with_draws_returned
from opscope.harness.prepare.own_random_numbers import OWN_NUMBERS
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Missing, WalkTask, walk
from opscope.harness.prepare.whole_row import WHOLE, WholeProgram, write
from opscope.harness.record.optest import RunContext
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import Status

BOUNDS = """func.func @main(%lo: tensor<f32>, %hi: tensor<f32>) -> tensor<64x64xf32> {
  %s = stablehlo.constant dense<[64, 64]> : tensor<2xi64>
  %a = stablehlo.rng %lo, %hi, %s, distribution = UNIFORM
    : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<64x64xf32>
  %b = stablehlo.add %a, %a : tensor<64x64xf32>
  return %b : tensor<64x64xf32>
}"""
CALLS = """func.func @main(%x: tensor<64xf32>, %s: tensor<2xui64>) -> (tensor<64xf32>, tensor<f32>, tensor<2xui64>) {
  %n = func.call @noise() : () -> tensor<64xf32>
  %y = stablehlo.add %x, %n : tensor<64xf32>
  %t, %b = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<64xui32>)
  %f = stablehlo.convert %b : (tensor<64xui32>) -> tensor<64xf32>
  %z = stablehlo.multiply %y, %f : tensor<64xf32>
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%z init: %c) applies stablehlo.add across dimensions = [0]
    : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
  return %z, %r, %t : tensor<64xf32>, tensor<f32>, tensor<2xui64>
}
func.func private @noise() -> tensor<64xf32> {
  %l = stablehlo.constant dense<0.0> : tensor<f32>
  %h = stablehlo.constant dense<1.0> : tensor<f32>
  %s = stablehlo.constant dense<[64]> : tensor<1xi64>
  %a = stablehlo.rng %l, %h, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<64xf32>
  %b = func.call @normal(%l, %h, %s) : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<64xf32>
  %c = stablehlo.add %a, %b : tensor<64xf32>
  return %c : tensor<64xf32>
}
func.func private @normal(%l: tensor<f32>, %h: tensor<f32>, %s: tensor<1xi64>) -> tensor<64xf32> {
  %b = stablehlo.rng %l, %h, %s, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<64xf32>
  return %b : tensor<64xf32>
}"""
LOOP = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<true> : tensor<i1>
  %r = "stablehlo.if"(%c) ({
    %l = stablehlo.constant dense<0.0> : tensor<f32>
    %h = stablehlo.constant dense<1.0> : tensor<f32>
    %s = stablehlo.constant dense<[4]> : tensor<1xi64>
    %a = stablehlo.rng %l, %h, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
    stablehlo.return %a : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}"""
OFF = """
from opscope.harness.backends.xla import Xla
from opscope.harness.record.stages import Stage


class Off(Xla):
    name = "off"

    def climb(self, stage, job):
        super().climb(stage, job)
        if stage is Stage.RUN:
            job.outputs = [value.copy() for value in job.outputs]
            job.outputs[0].flat[3] *= -4
"""


def test_draws_become_results_and_then_arguments() -> None:
    module = mlir.load(CALLS)
    draws = with_draws_returned(module)
    assert [(desc.shape, desc.data_type) for desc in draws] == [
        ((64,), "f32"),
        ((64,), "f32"),
        ((2,), "ui64"),
        ((64,), "ui32"),
    ]
    assert module.operation.verify()
    assert str(module).count("stablehlo.rng ") == 4, "functions that nobody calls any more stay"
    given = with_draws_given(mlir.load(mlir.to_bytecode(module)), len(draws))
    assert given.operation.verify()
    split = split_module(given, "given")
    assert len(split.program.arguments) == 6
    assert not [op for op in split.ops.values() if "rng" in op.op_name]
    assert with_draws_returned(mlir.load(LOOP)) == [], "how often it draws is not known"
    assert (
        with_draws_returned(
            mlir.load("func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> { return %x : tensor<1xf32> }")
        )
        == []
    )


def whole(folder: Path, text: str) -> OpRow:
    split = split_module(text, "m")
    distributions = argument_distributions(split)
    (folder / "module.mlirbc").write_bytes(mlir.to_bytecode(mlir.load(text)))
    results = walk(WalkTask(split, distributions, 0, folder, "captured:m:0")).results
    assert any(isinstance(value, Missing) and value.reason == OWN_NUMBERS for value in results)
    write(folder, "m", WholeProgram(split, results, distributions, 0))
    return OpRow.model_validate_json((folder / WHOLE).read_text())


def on(backend: str, folder: Path, row: OpRow) -> OpTest:
    return climb(row, registry.load(backend), context=RunContext("r", str(folder / "run"), backend), export_dir=folder)


@pytest.mark.slow
@pytest.mark.parametrize("text", [BOUNDS, CALLS], ids=["bounds", "calls"])
def test_a_model_is_judged_by_what_its_backend_drew(tmp_path: Path, text: str) -> None:
    row = whole(tmp_path, text)
    assert on("xla", tmp_path, row).status is Status.SUCCESS
    (tmp_path / "off.py").write_text(OFF)
    wrong = on(str(tmp_path / "off.py"), tmp_path, row)
    assert wrong.status is Status.WRONG_RESULT
    assert [check.passed for check in wrong.results][:2] == [False, True]


def test_what_draws_in_a_branch_stays_without_a_golden(tmp_path: Path) -> None:
    assert on("xla", tmp_path, whole(tmp_path, LOOP)).status is Status.NO_GOLDEN


@pytest.mark.slow
def test_bounds_are_drawn_in_their_order(tmp_path: Path) -> None:
    """tt-mlir#4770: the ends of the interval are arguments of the model."""
    split = split_module(BOUNDS, "m")
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        [rng] = [
            row
            for row in walk(WalkTask(split, argument_distributions(split), seed, folder, "c")).rows
            if row.inputs[:1] and "rng" in row.op_name
        ]
        low, high = row_inputs(rng, folder)
        assert low < high
    integers = BOUNDS.replace("f32", "i32")
    assert argument_distributions(split_module(integers, "m")) == ["int:-6:-3", "int:3:6"]
    normal = BOUNDS.replace("UNIFORM", "NORMAL")
    assert argument_distributions(split_module(normal, "m")) == ["normal:1", "uniform:0.1:4"]


def test_an_interval_that_is_none_says_so(tmp_path: Path) -> None:
    split = split_module(BOUNDS, "m")
    for number, value in enumerate((1.0, -1.0)):
        np.save(tmp_path / f"{number}.npy", np.float32(value))
    plan = WalkTask(split, [], 0, tmp_path, "c", value_files={0: "0.npy", 1: "1.npy"})
    test = on("xla", tmp_path, walk(plan).rows[0])
    assert test.status is Status.NO_GOLDEN
    assert test.error_message == "UNIFORM of 1 and -1: no such distribution, so that no numbers are right"
