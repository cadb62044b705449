"""Whole models first: ops are climbed only where a model failed, and everything still adds up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import store
from harness.tests.acceptance.conftest import Place
from harness.tests.acceptance.test_resume import steady

assert steady, "a fixture, used by name"

SUM = """func.func @main(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.add %x, %y : tensor<8x16xf32>
  %1 = stablehlo.exponential %0 : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}"""
PRODUCT = """func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.tanh %0 : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}"""


def whole(run: Path) -> dict[str, str]:
    lines = (run / "whole.jsonl").read_text().splitlines()
    return {(test := json.loads(line))["model_name"]: test["status"] for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("-n", "2")])
def test_ops_are_run_where_the_whole_model_failed(steady: Place, more: tuple[str, ...]) -> None:
    (steady.folder / "sum.mlir").write_text(SUM)
    (steady.folder / "product.mlir").write_text(PRODUCT)
    run = steady.folder / "run"
    models = ("--model", "sum.mlir", "--model", "product.mlir", "--backend", "steady.py")
    options = ("--op-by-op-on-fail", "--no-cache", "--no-report", "--run-dir", str(run), *more)
    done = steady.run("pytest", *models, *options)
    assert done.code == 1, done.out + done.err
    assert whole(run) == {"sum": "stopped", "product": "compile_failed"}
    found = {test.op_name: (test.status.value, test.error_message) for test in store.load_run(run).tests}
    assert found["stablehlo.add"] == found["stablehlo.exponential"] == ("skipped", "its models ran whole")
    assert found["stablehlo.dot_general"] == ("compile_failed", "no room for a dot")
    assert found["stablehlo.tanh"][0] == "stopped"
    assert "4 unique ops = 1 compile_failed + 1 stopped + 2 skipped" in done.out
    assert "product on steady: compile_failed at compile: no room for a dot" in " ".join(done.out.split())
    assert "FAILED product::whole[steady]" in steady.run("pytest", "--op-by-op", "--resume", str(run), "-rf").out
    assert len((run / "whole.jsonl").read_text().splitlines()) == 2, "neither model ran again"


@pytest.mark.slow
def test_a_right_whole_model_spares_its_ops(place: Place) -> None:
    run = place.folder / "run"
    options = ("--op-by-op-on-fail", "--no-report", "--run-dir", str(run))
    done = place.run("pytest", "--model", "mnist_mlp", *options)
    assert done.code == 0, done.out + done.err
    assert "1 passed, 24 deselected" in done.out
    assert whole(run) == {"mnist_mlp": "success"}
    (test,) = json.loads(place.run("opscope", "show", str(run), "--json").out)["whole_models"]
    assert test["results"][0]["tolerance"] == "Float32 matrix HiFi4, whole model"
    assert 0 < test["results"][0]["relative_l2"] < 4e-3
