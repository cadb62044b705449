"""Which lines of a failed op's IR report.html marks, and what it shows of a long file."""

from __future__ import annotations

from pathlib import Path

from opscope.harness.record import artifacts
from opscope.harness.record.stages import Status
from opscope.harness.record.store import load_run
from opscope.reports.pages import op_ir
from opscope.reports.tests.sample_run import make_run, op_id

REDUCE = """func.func @main(%a: tensor<4xf32>) -> tensor<f32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%a init: %0) applies stablehlo.add across dimensions = [0] : tensor<4xf32>
  %2 = "stablehlo.add"(%1, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
}"""
TTIR = '  %1 = "ttir.sum"(%0) : () -> ()\n  %2 = "ttir.add"(%1) : () -> ()\n'


def test_the_failing_op_is_marked_in_the_last_text_that_has_it(tmp_path: Path) -> None:
    test = load_run(make_run(tmp_path / "run")).tests[3]
    for error, marks in (
        ("stablehlo.reduce: not yet", [[3], []]),
        ("stablehlo.add: not yet", [[4], []]),
        ("ttir.add: not yet", [[], [2]]),
        ("failed to legalize operation 'ttir.sum' that was marked illegal", [[], [1]]),
        ("'stablehlo.reduce' op expects a region", [[3], []]),
        ("ttnn.sum: a later pass made it", [[], []]),
        ("out of memory", [[], []]),
    ):
        failed = test.model_copy(update={"error_message": error, "op_name": "stablehlo.sort"})
        assert op_ir.failing_lines([REDUCE, TTIR], failed) == marks, error
    wrong = test.model_copy(update={"status": Status.WRONG_RESULT, "op_name": "stablehlo.reduce"})
    assert op_ir.failing_lines([REDUCE, TTIR], wrong) == [[3], []]


def test_a_long_file_is_shown_around_its_mark(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    [test] = [test for test in load_run(run_dir).tests if test.op_id == op_id(3)]
    lines = [f"  %{n} = stablehlo.exponential %0" for n in range(1, 400)]
    lines[199] = f"  %200 = stablehlo.fft {'x' * 1000} loc(unknown)"
    assert not op_ir.of_tests(run_dir, [test])
    artifacts.write(run_dir, test.op_id, "repro-reference/module.mlir", "stablehlo.fft %0\n")
    [kept] = op_ir.of_tests(run_dir, [test])[test.op_id, "reference"]
    assert (kept["name"], kept["marked"], kept["cut"]) == ("stablehlo", [1], False)
    artifacts.write(run_dir, test.op_id, "ir-reference/0-stablehlo.mlir", "\n".join(lines))
    artifacts.write(run_dir, test.op_id, "ir-reference/3-program.ttnn", b"\xff")
    [stage] = op_ir.of_tests(run_dir, [test])[test.op_id, "reference"]
    assert (stage["name"], stage["marked"], stage["cut"]) == ("stablehlo", [200], True)
    assert len(stage["lines"]) == op_ir.MOST_LINES
    shown = stage["lines"][200 - stage["first"]]
    assert shown.startswith("  %200 = stablehlo.fft")
    assert len(shown) == op_ir.MOST_LETTERS + 2
    assert stage["file"] == f"artifacts/{test.op_id}/ir-reference/0-stablehlo.mlir"
