"""Every status of the ledger, reached in a real run: the reference compiler and the simulated card, nothing mocked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from opscope.harness.page.summary import Run
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Stage, Status
from opscope.harness.run import finish_run
from opscope.harness.run.api import run_op_by_op
from opscope.harness.tests.acceptance.conftest import Place
from opscope.harness.tests.faulty_backends import spoiled_numbers

# In the order of the ops: right, unknown to the compiler, larger than all of n150's DRAM (13.25 of 12 GiB).
BROKEN = """
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<868352x64x64xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.custom_call @no_such_target(%0) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<64x64xf32>) -> tensor<868352x64x64xf32>
  return %1, %2 : tensor<64x64xf32>, tensor<868352x64x64xf32>
}"""

TWO_OPS = """
func.func @main(%x: tensor<32x16xf32>, %y: tensor<32x16xf32>) -> tensor<32x16xf32> {
  %0 = stablehlo.add %x, %y : tensor<32x16xf32>
  %1 = stablehlo.subtract %0, %x : tensor<32x16xf32>
  return %1 : tensor<32x16xf32>
}"""

SMALL = """
func.func @main(%x: tensor<64x64xf32>) -> tensor<f32> {
  %0 = stablehlo.tanh %x : tensor<64x64xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<64x64xf32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}"""

# 17 GFLOP: no machine does them on one thread in 50 ms.
LONG = """
func.func @main(%x: tensor<2048x2048xf32>, %w: tensor<2048x2048xf32>) -> tensor<2048x2048xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %0 : tensor<2048x2048xf32>
}"""

# 2 GiB: the card has room for it, the process that simulates the card is allowed less.
LARGE = """
func.func @main(%x: tensor<1024xf32>) -> tensor<524288x1024xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<1024xf32>) -> tensor<524288x1024xf32>
  return %0 : tensor<524288x1024xf32>
}"""

# XLA gives result 0 of equal operands for all results (openxla/xla#29362).
SCATTER = """
func.func @main(%u: tensor<3xf32>, %v: tensor<3xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<5xf32>
  %i = stablehlo.constant dense<[[4],[0],[2]]> : tensor<3x1xi32>
  %r:2 = "stablehlo.scatter"(%z, %z, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
    stablehlo.return %c, %d : tensor<f32>, tensor<f32>
  }) : (tensor<5xf32>, tensor<5xf32>, tensor<3x1xi32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<5xf32>, tensor<5xf32>)
  return %r#0, %r#1 : tensor<5xf32>, tensor<5xf32>
}"""


@dataclass(frozen=True)
class Case:
    """A module, the options of its run, and how its ops end, in their order."""

    module: str
    options: tuple[str, ...]
    ends: tuple[tuple[Status, str], ...]
    """Status, and words of the message."""
    code: int = 1


UNKNOWN = (Status.COMPILE_FAILED, "another library's symbol")
CASES = {
    "compile_failed, run_failed": Case(
        BROKEN,
        # So little memory that a single touch of the result would crash the lane instead; the next case runs again.
        ("--op-memory", "1GiB", "--reruns", "0"),
        ((Status.SUCCESS, ""), UNKNOWN, (Status.RUN_FAILED, "OutOfMemory")),
    ),
    "not_run": Case(BROKEN, ("-x",), ((Status.SUCCESS, ""), UNKNOWN, (Status.NOT_RUN, "ended before"))),
    "wrong_result": Case(
        TWO_OPS,
        ("--backend", spoiled_numbers.PATH, "--ops", "subtract"),
        ((Status.SKIPPED, "deselected"), (Status.WRONG_RESULT, " values are wrong: ")),
    ),
    "no_golden": Case(
        SMALL,
        ("--golden-memory", "1KiB"),
        ((Status.NO_GOLDEN, "result of 16 KiB is above the cap of 1 KiB"), (Status.SUCCESS, "")),
    ),
    "golden_in_doubt": Case(
        SCATTER, ("--backend", "xla"), ((Status.GOLDEN_IN_DOUBT, "StableHLO's interpreter"),), code=0
    ),
    "stopped, skipped": Case(
        SMALL,
        ("--until", "ttnn-to-flatbuffer", "--ops", "tanh"),
        ((Status.PASSED, "stopped after"), (Status.SKIPPED, "deselected")),
        code=0,
    ),
    "timeout": Case(LONG, ("--op-timeout", "0.05"), ((Status.TIMEOUT, "no answer within 0.05 s"),)),
    "crashed": Case(LARGE, ("--op-memory", "1GiB", "--golden-memory", "1MiB"), ((Status.CRASHED, "1024 MiB allowed"),)),
}
FIRST = "compile_failed, run_failed"


def test_every_status_has_a_case() -> None:
    ended = {status for case in CASES.values() for status, _ in case.ends}
    assert ended == set(Status) - {Status.STOPPED}, "which no backend of ours but `null` has"


def test_a_status_of_each_stage_and_the_ledger(tmp_path: Path) -> None:
    case = CASES[FIRST]
    run_op_by_op(case.module, run_dir=tmp_path / "run", cache_dir=tmp_path / "cache", op_memory=1 << 30, reruns=0)
    check(case, finish_run.stored_page(tmp_path / "run"))


# quick: the test above has a run without pytest, and test_selection_skips_the_rest pytest's exit code after a failure
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_status(name: str, place: Place) -> None:
    case = CASES[name]
    (place.folder / "net.mlir").write_text(case.module)
    done = place.run("pytest", "--model", "net.mlir", "--op-by-op", "--no-report", *case.options)
    assert done.code == case.code, done.out + done.err
    page = finish_run.stored_page(place.runs()[-1])
    check(case, page)
    assert page.ledger_line in done.out.replace("\n", "; ")
    assert "≠" not in done.out


def check(case: Case, page: Run) -> None:
    """Holds what is stored of a run to how its ops should end."""
    tests = {test.op_id: test for test in page.tests}
    ended: list[OpTest] = [tests[row.op_id] for row in page.rows]
    assert [test.status for test in ended] == [status for status, _ in case.ends]
    for test, (status, words) in zip(ended, case.ends, strict=True):
        assert words in (test.error_message or "")
        assert test.success is (status in (Status.SUCCESS, Status.PASSED))
        if status is Status.RUN_FAILED:
            assert (test.stage_reached, test.failed_stage) == (Stage.TTNN_TO_FLATBUFFER, Stage.RUN)
        if status is Status.CRASHED:
            assert test.crash_kind == "memory"
    assert page.ledger.adds_up
    assert page.ledger.by_status == Counter(status for status, _ in case.ends)
