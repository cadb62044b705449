"""Backend `buda`: depths as stages, what TT-Buda leaves to the host, numbers against XLA's."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.harness.backends.buda import Buda
from opscope.harness.record.depths import DEPTHS, STAGES
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Stage, Status
from opscope.harness.run.api import run_op_by_op

F32, WEIGHT, INTEGER = "tensor<64x96xf32>", "tensor<128x96xf32>", "tensor<64x96xi32>"
MODULE = f"""
func.func @main(%x: tensor<64x128xf32>, %w: {WEIGHT}, %i: {INTEGER}) -> ({F32}, {INTEGER}) {{
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, {WEIGHT}) -> {F32}
  %1 = stablehlo.tanh %0 : {F32}
  %2 = stablehlo.add %i, %i : {INTEGER}
  return %1, %2 : {F32}, {INTEGER}
}}"""


def by_op(tests: list[OpTest]) -> dict[str, OpTest]:
    return {test.op_name: test for test in tests}


def test_depths_are_the_compilers() -> None:
    from opscope.compiler.depths import STEPS, CompileDepth

    assert [depth.stage for depth in STEPS] == list(DEPTHS)
    assert set(STAGES) == set(CompileDepth.__members__)


@pytest.mark.slow
def test_ops_are_planned_run_and_right_and_integers_stay_on_the_host(tmp_path: Path) -> None:
    tests = by_op(run_op_by_op(MODULE, backend="buda", arch="n150", run_dir=tmp_path / "run"))
    for name in ("stablehlo.dot_general", "stablehlo.tanh"):
        assert (tests[name].status, tests[name].compile_depth) == (Status.SUCCESS, "FULL"), tests[name]
        assert tests[name].pcc is None or tests[name].pcc > 0.999
        assert tests[name].limiter in ("math", "unpack", "pack", "noc", "dram")
        assert 0 < (tests[name].utilisation or 0) <= 1
    assert tests["stablehlo.add"].status is Status.SKIPPED
    assert "stays on the host" in (tests["stablehlo.add"].error_message or "")


@pytest.mark.slow
def test_until_a_depth(tmp_path: Path) -> None:
    tests = by_op(
        run_op_by_op(
            MODULE, backend="buda", until=str(STAGES["GENERATE_NETLIST"]), keep_ir=True, run_dir=tmp_path / "run"
        )
    )
    product = tests["stablehlo.dot_general"]
    assert (product.status, product.compile_depth) == (Status.PASSED, "GENERATE_NETLIST")
    (netlist,) = (tmp_path / "run").glob(f"artifacts/{product.op_id}/**/netlist.yaml")
    assert "type: matmul" in netlist.read_text()


def test_a_stage_follows_each_depth() -> None:
    assert Buda.stages[-1] is Stage.RUN
    assert len(Buda.stages) == 14


KNOWN = """
func.func @main(%a: tensor<8x40xf32>, %b: tensor<8x40xf32>) -> (tensor<8x40xf32>, tensor<8xf32>, tensor<40xf32>) {
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.floor %a : tensor<8x40xf32>
  %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.multiply across dimensions = [1]
    : (tensor<8x40xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%0 init: %2) applies stablehlo.add across dimensions = [0]
    : (tensor<8x40xf32>, tensor<f32>) -> tensor<40xf32>
  return %0, %1, %3 : tensor<8x40xf32>, tensor<8xf32>, tensor<40xf32>
}"""


@pytest.mark.slow
def test_ops_that_the_planner_lacks_are_expected_failures(tmp_path: Path) -> None:
    tests = run_op_by_op(KNOWN, backend="buda", run_dir=tmp_path / "run")
    (least,) = (test for test in tests if test.op_name == "stablehlo.floor")
    assert least.expected.startswith("notimpl: the Buda route lowers no such op"), least
    reduces = [test for test in tests if test.op_name == "stablehlo.reduce"]
    assert sorted((str(test.status), test.expected[:8], test.fails_run) for test in reduces) == [
        ("compile_failed", "notimpl:", False),
        ("success", "", False),
    ]
