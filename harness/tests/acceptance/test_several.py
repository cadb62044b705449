"""One sweep on several backends: one manifest, each backend its own records and ledger, and where they disagree."""

from __future__ import annotations

import json

import pytest

from opscope.harness.record.stages import Status
from opscope.harness.run import finish_run
from opscope.harness.tests.acceptance.conftest import Place

pytestmark = pytest.mark.slow

# The card has no 64-bit float: the first op passes on the host alone, the second on both.
SPLIT = """
func.func @main(%x: tensor<8x16xf64>, %y: tensor<8x16xf32>) -> (tensor<8x16xf64>, tensor<8x16xf32>) {
  %0 = stablehlo.add %x, %x : tensor<8x16xf64>
  %1 = stablehlo.tanh %y : tensor<8x16xf32>
  return %0, %1 : tensor<8x16xf64>, tensor<8x16xf32>
}"""

BOTH = ("--backend", "reference", "--backend", "xla")


def test_what_cannot_be_asked_for_is_one_line(place: Place):
    (place.folder / "bad.yaml").write_text("stages: [{name: pack, command: [cp, '{inptu}', '{output}']}]\n")
    bad = f"{place.folder}/bad.yaml: stage 1 (pack): expected a placeholder, got {{inptu}}; try input"
    messages = {
        "bad.yaml": bad,
        "xla": "--backend: expected each backend once, got 'xla' twice; try --backend xla",
        "nul": "--backend: expected a backend, got 'nul'; try null",
        "command": "--backend command: expected a YAML file with stage commands, got none",
    }
    commands = [place.sweep("--backend", other, backend="xla") for other in messages]
    for line, done in zip(messages.values(), place.one_after_another(*commands), strict=True):
        assert done.code == 2
        assert done.err.startswith(f"pytest --op-by-op: {line}"), done.err
        assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_the_records_of_both_and_where_they_disagree(place: Place, workers):
    (place.folder / "split.mlir").write_text(SPLIT)
    done = place.run("pytest", "--model", "split.mlir", "--op-by-op", *BOTH, *workers)
    page = finish_run.stored_page(place.runs()[-1])
    assert {name: dict(books.by_status) for name, books in page.ledgers.items()} == {
        "reference": {Status.SUCCESS: 1, Status.COMPILE_FAILED: 1},
        "xla": {Status.SUCCESS: 2},
    }
    assert page.adds_up
    assert "Ops on which the backends disagree (1)" in done.out
    assert "only on this backend: compile_failed at ttir-to-ttnn" in " ".join(done.out.split()), done.out
    assert "reference: 2 unique ops = 1 success + 1 compile_failed" in done.out
    report = (place.runs()[-1] / "report.html").read_text()
    assert "Where the backends disagree" in report
    assert "stablehlo.add on reference" in report
    printed = json.loads(place.run("opscope", "show", "--json").out)
    assert [(split["op_name"], split["alone"]) for split in printed["disagreements"]] == [
        ("stablehlo.add", "reference")
    ]
    assert {test["backend"] for test in printed["op_tests"]} == {"reference", "xla"}
    assert len(printed["op_tests"]) == 4
    # One op again, on both or on one; and what an op of one backend is called.
    op_id = printed["disagreements"][0]["op_id"]
    again = place.run("pytest", "--op-by-op", "--op", op_id, "--backend", "xla", "--no-report")
    assert (again.code, "1 passed" in again.out) == (0, True), again.out
    listed = place.run("pytest", "--model", "split.mlir", "--op-by-op", *BOTH, "--collect-only", "-q").out
    assert f"split.mlir::stablehlo.add[{op_id}@xla]" in listed.replace("split::", "split.mlir::")


def test_a_run_on_both_goes_on_where_it_was_cut(place: Place):
    known = "stablehlo.add %x, %x : tensor<8x16xf64>"
    unknown = "stablehlo.custom_call @no_such_target(%x) : (tensor<8x16xf64>) -> tensor<8x16xf64>"
    (place.folder / "split.mlir").write_text(SPLIT.replace(known, unknown))
    first = place.run("pytest", "--model", "split.mlir", "--op-by-op", *BOTH, "-x", "--no-report")
    page = finish_run.stored_page(place.runs()[-1])
    cut = {(test.op_id, test.backend): test.status is Status.NOT_RUN for test in page.tests}
    assert set(cut.values()) == {True, False}, first.out
    resumed = place.run("pytest", "--op-by-op", "--resume", str(place.runs()[-1]), "--no-report")
    page = finish_run.stored_page(place.runs()[-1])
    assert page.adds_up, resumed.out
    assert sum(sum(books.by_status.values()) for books in page.ledgers.values()) == 4
    assert Status.NOT_RUN not in {test.status for test in page.tests}
    assert {(test.op_id, test.backend): test.attempt == 2 for test in page.tests} == cut
