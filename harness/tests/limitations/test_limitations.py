"""Limitations: what they excuse, and what they do not."""

from __future__ import annotations

import dataclasses
from datetime import date, timedelta

import pytest
from jaxlib import cpu_sparse, lapack

from opscope.harness.backends.base import Job, StageError
from opscope.harness.backends.reference import Reference
from opscope.harness.limitations.limitation_file import project_rows
from opscope.harness.limitations.limitations import BODY, GRACE, ByName, Limitation, judged, match, verdict
from opscope.harness.prepare.split import split_module
from opscope.harness.record.optest import RunContext, build_test, now
from opscope.harness.record.records import TensorDesc
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import add_row

ROW = Limitation(("stablehlo.a*",), "null", Stage.COMPILE, "notyet", "the linker has none", message="no kernel*")


def outcome(tmp_path, status, failed=None, error=None, **fields):
    row = add_row(tmp_path, "op1")
    return build_test(
        row, RunContext("r", "run", "null"), status=status, failed_stage=failed, error=error, started=now(), **fields
    )


def test_the_failure_it_names_is_expected(tmp_path):
    test, said = judged(outcome(tmp_path, Status.COMPILE_FAILED, Stage.COMPILE, "no kernel for it"), [ROW])
    assert (said.outcome, test.expected) == ("xfail", "notyet: the linker has none")
    assert test.status is Status.COMPILE_FAILED


@pytest.mark.parametrize(
    ("status", "failed", "error", "why"),
    [
        (Status.RUN_FAILED, Stage.RUN, "no kernel for it", "failed at run"),
        (Status.COMPILE_FAILED, Stage.COMPILE, "internal error", "failed for another reason"),
        (Status.SUCCESS, None, None, "unexpected pass"),
    ],
)
def test_another_reason_and_an_unexpected_pass_fail(tmp_path, status, failed, error, why):
    test, said = judged(outcome(tmp_path, status, failed, error), [ROW])
    assert said.outcome == "fail"
    assert why in said.reason
    # The record agrees with the test: an unexpected pass is told as such, and fails its run like the other two.
    assert test.expected == (said.reason if status is Status.SUCCESS else "")
    assert test.fails_run


def test_of_the_ops_of_a_row_that_is_not_strict_some_may_pass(tmp_path):
    some = dataclasses.replace(ROW, strict=False)
    for status, failed, error, said in (
        (Status.COMPILE_FAILED, Stage.COMPILE, "no kernel for it", "xfail"),
        (Status.COMPILE_FAILED, Stage.COMPILE, "internal error", "fail"),
        (Status.RUN_FAILED, Stage.RUN, "no kernel for it", "fail"),
        (Status.SUCCESS, None, None, "pass"),
    ):
        test, excuse = judged(outcome(tmp_path, status, failed, error), [some])
        assert excuse.outcome == said
        assert test.expected == (excuse.reason if said == "xfail" else "")
    passed = outcome(tmp_path, Status.SUCCESS)
    assert verdict(passed, match(passed, rows=[some, ROW])).outcome == "fail", "the stricter row counts"


def test_without_a_row_a_failure_fails_and_the_rest_passes(tmp_path):
    assert verdict(outcome(tmp_path, Status.CRASHED), None).outcome == "fail"
    assert verdict(outcome(tmp_path, Status.NO_GOLDEN), None).outcome == "fail"
    for status in (Status.SUCCESS, Status.STOPPED, Status.SKIPPED, Status.NOT_RUN):
        assert verdict(outcome(tmp_path, status), None).outcome == "pass"


@pytest.mark.parametrize(
    ("kind", "place", "said"),
    [
        ("never", "host", "pass"),
        ("never", "mixed", "pass"),
        ("never", "simulator", "fail"),
        ("notimpl", "host", "fail"),
    ],
)
def test_the_host_may_compute_what_hardware_cannot(tmp_path, kind, place, said):
    row = dataclasses.replace(ROW, kind=kind)
    assert judged(outcome(tmp_path, Status.SUCCESS, ran_on=place), [row])[1].outcome == said


def test_conditions_narrow_a_row(tmp_path):
    row = add_row(tmp_path, "op1").model_copy(update={"op_params": {"dims": "array<i64: 1>"}})
    for change, hit in [
        ({}, True),
        ({"op": ("stablehlo.sub*",)}, False),
        ({"op": ("stablehlo.sub*", "*.add")}, True),
        ({"backend": "xla"}, False),
        ({"types": ("f32",)}, True),
        ({"types": ("f64",)}, False),
        ({"op_ids": ("op1",)}, True),
        ({"op_ids": ("op2",)}, False),
        ({"params": {"dims": "*1>"}}, True),
        ({"params": {"dims": "*2>"}}, False),
        ({"params": {"axis": "*"}}, True),
        ({"families": frozenset({"eltwise"})}, True),
        ({"families": frozenset({"matmul"})}, False),
        ({"arch": "e150"}, False),
        ({"but": (row.op_name,)}, False),
        ({"but": ("stablehlo.other",)}, True),
    ]:
        assert (match(row, "null", [dataclasses.replace(ROW, **change)]) is not None) is hit, change


def test_a_row_may_ask_for_a_card_and_a_forced_format(tmp_path):
    row = dataclasses.replace(ROW, arch="e150", data_formats=("", "Float32"))
    for card, forced, hit in [
        ("sim-e150", "", True),
        ("sim-e150", "Float32", True),
        ("sim-e150", "Float16_b", False),
        ("sim-n150", "", False),
    ]:
        test = outcome(tmp_path, Status.COMPILE_FAILED, Stage.COMPILE, "x", card_type=card, data_format=forced)
        assert (match(test, rows=[row]) is not None) is hit


@pytest.mark.parametrize(
    ("op", "element", "forced", "named"),
    [
        ("add", "f32", "", True),
        ("add", "f32", "Float16_b", False),
        ("add", "bf16", "", False),
        ("add", "bf16", "Float32", True),
        ("reshape", "f32", "", False),
        ("select", "f32", "", True),
        ("add", "i32", "Float16_b", True),
        ("add", "ui16", "", False),
    ],
)
def test_grayskull_computes_with_16_bits(tmp_path, op, element, forced, named):
    desc = TensorDesc(shape=(4, 8), data_type=element)
    row = add_row(tmp_path, "op1").model_copy(
        update={"op_name": f"stablehlo.{op}", "inputs": (desc, desc), "outputs": (desc,)}
    )
    for card, hit in (("sim-e150", named), ("sim-n150", False)):
        test = build_test(
            row,
            RunContext("r", "run", "reference"),
            status=Status.SUCCESS,
            started=now(),
            card_type=card,
            data_format=forced,
        )
        assert (match(test, rows=project_rows()) is not None) is hit


def test_a_fingerprint_narrows_the_reason(tmp_path):
    failed = outcome(tmp_path, Status.COMPILE_FAILED, Stage.COMPILE, "no kernel for it")
    for signature, said in ((failed.error_signature, "xfail"), ("0" * 12, "fail")):
        assert verdict(failed, dataclasses.replace(ROW, signature=signature)).outcome == said


@pytest.mark.parametrize(
    ("day", "said"), [(-1, "xfail"), (0, "xfail"), (GRACE.days - 1, "xfail"), (GRACE.days, "fail")]
)
def test_an_expired_row_excuses_for_a_while(tmp_path, day, said):
    end = date(2026, 3, 1)
    failed = outcome(tmp_path, Status.COMPILE_FAILED, Stage.COMPILE, "no kernel for it")
    row = dataclasses.replace(ROW, expires=end)
    test, excuse = judged(failed, [row], end + timedelta(days=day))
    assert excuse.outcome == said
    assert test.fails_run is (said == "fail")
    if said == "fail":
        assert "expired on 2026-03-01" in excuse.reason


def test_of_two_rows_the_one_that_expects_what_happened_counts(tmp_path):
    failed = outcome(tmp_path, Status.COMPILE_FAILED, Stage.COMPILE, "no kernel for it")
    other = dataclasses.replace(ROW, message="no room*", reason="other")
    for rows in ([other, ROW], [ROW, other]):
        assert judged(failed, rows)[1].outcome == "xfail"
    assert judged(failed, [other])[1].outcome == "fail"


def test_every_general_row_of_the_reference_backend_is_a_hardware_fact():
    rows = [row for row in project_rows() if row.backend == "reference" and not row.op_ids]
    assert {row.kind for row in rows} == {"never"}


LOOP = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%n = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
  cond {{ %p = stablehlo.compare LT, %n, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1> }}
  do {{ {body}
    %m = stablehlo.add %n, %one : tensor<i32>
    stablehlo.return %m, %s : tensor<i32>, tensor<4xf32> }}
  return %r#1 : tensor<4xf32> }}"""
BRANCH = """func.func @main(%b: tensor<i32>, %v: tensor<4xf32>) -> tensor<4xf32> {{
  %r = "stablehlo.case"(%b) ({{ {body}
    stablehlo.return %s : tensor<4xf32> }}, {{ stablehlo.return %v : tensor<4xf32> }}) : (tensor<i32>) -> tensor<4xf32>
  return %r : tensor<4xf32> }}"""
COMPOSITE = """func.func private @d(%v: tensor<4xf32>) -> tensor<4xf32> {{
  {body}
  return %s : tensor<4xf32> }}
func.func @main(%v: tensor<4xf32>) -> tensor<4xf32> {{
  %r = stablehlo.composite "a.b" %v {{decomposition = @d}} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32> }}"""
IF = BRANCH.replace("tensor<i32>", "tensor<i1>").replace("stablehlo.case", "stablehlo.if")
CALLED = COMPOSITE.replace('stablehlo.composite "a.b" %v {{decomposition = @d}}', "func.call @d(%v)")
REDUCE = """func.func @main(%x: tensor<8x3xf32>, %z: tensor<f32>) -> tensor<3xf32> {{
  %r = stablehlo.reduce(%x init: %z) across dimensions = [0] : (tensor<8x3xf32>, tensor<f32>) -> tensor<3xf32>
  reducer(%v: tensor<f32>, %b: tensor<f32>) {{ {body}
    %o = stablehlo.add %s, %b : tensor<f32>
    stablehlo.return %o : tensor<f32> }}
  return %r : tensor<3xf32> }}"""
SQUARE = """%i = stablehlo.convert %v : (tensor<4xf32>) -> tensor<4x{0}>
    %j = stablehlo.multiply %i, %i : tensor<4x{0}>
    %s = stablehlo.{1} %j : (tensor<4x{0}>) -> tensor<4xf32>"""


@pytest.mark.crossed
@pytest.mark.parametrize("text", [LOOP, BRANCH, IF, COMPOSITE, CALLED, REDUCE])
@pytest.mark.parametrize(("kind", "back"), [("i64", "convert"), ("f64", "convert"), ("complex<f32>", "real")])
def test_what_is_known_alone_is_known_within(tmp_path, text, kind, back):
    """With the reason, and the stage, of the op alone."""
    body = SQUARE.format(kind, back)
    tests = climbed(tmp_path, text.format(body=body.replace("4x", "") if text is REDUCE else body))
    [said] = {judged(test, project_rows())[1] for test in tests}
    assert said.outcome == "xfail"
    assert said.reason.startswith("never: no ")


LOWERED = ("lapack_strsm_ffi", "lapack_spotrf_ffi")
HOST = [name for library in (lapack, cpu_sparse) for name, *_ in library.registrations()["cpu"] if name not in LOWERED]
"""What jaxlib has for a CPU, but for what is lowered."""
TYPES = {"d": "f64", "c": "complex<f32>", "z": "complex<f64>"}


AGAIN = [
    name
    for name in HOST
    for letter, others in (("d", "s"), ("c", "s"), ("z", "sc"))
    if name.startswith(f"lapack_{letter}") and any(f"lapack_{other}{name[8:]}" in HOST for other in others)
]
# quick: [lapack_s...] is the same routine for f32, or [lapack_c...] for complex numbers alone


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in AGAIN)) for name in HOST])
def test_what_only_the_host_has_the_code_of_is_known(tmp_path, name):
    kind = TYPES.get(name.removeprefix("lapack_")[0], "f32")
    call = f"%s = stablehlo.custom_call @{name}(%v) : (tensor<4x{kind}>) -> tensor<4x{kind}>"
    text = LOOP.format(body=call).replace("tensor<4xf32>", f"tensor<4x{kind}>")
    tests = climbed(tmp_path, text)
    assert {test.op_name for test in tests} >= {"stablehlo.while", f"stablehlo.custom_call:{name}"}
    said = [judged(test, project_rows())[1] for test in tests]
    assert {each.outcome for each in said} == {"xfail"}, [test.error_message for test in tests]
    assert kind != "f32" or len({each.reason for each in said}) == 1


def test_an_op_that_holds_others_fails_for_other_reasons_too(tmp_path):
    holder = climbed(tmp_path, LOOP.format(body=SQUARE.format("i64", "convert")))[0]
    for update in (
        {"error_message": "stablehlo.while: no room in L1"},
        {"failed_stage": Stage.STABLEHLO_TO_TTIR},
        {"op_name": "stablehlo.add"},
        {"backend": "null"},
    ):
        assert judged(holder.model_copy(update=update), project_rows())[1].outcome == "fail", update
    passed = holder.model_copy(update={"status": Status.SUCCESS, "failed_stage": None, "error_message": None})
    assert judged(passed, project_rows())[1].outcome == "pass", "none of its ops has to be refused"


def climbed(tmp_path, text):
    """A record for each op of a program that the reference compiler refuses, as far as its message and stage."""
    reference, tests = Reference(), []
    for op in split_module(text, "m").ops.values():
        job = Job(op.op_id, op.bytecode, [], ResultOptions.of({}), op.outputs, (), None)
        for stage in reference.stages[:3]:
            try:
                reference.climb(stage, job)
            except StageError as error:
                test = outcome(tmp_path, Status.COMPILE_FAILED, stage, error.message)
                told = {"op_name": op.op_name, "backend": "reference", "inputs": op.inputs, "outputs": op.outputs}
                tests.append(test.model_copy(update={**told, "op_params": op.op_params}))
                break
    return sorted(tests, key=lambda test: test.op_name not in ("stablehlo.while", "stablehlo.case"))


def test_rows_that_are_looked_up_by_name_are_all_that_name_the_op(tmp_path):
    rows = [*project_rows(), ROW, dataclasses.replace(ROW, op=("stablehlo.add",), within="*needs add*")]
    names = {name.replace("*", "x") for row in rows for name in row.op} | {"stablehlo.while", "stablehlo.add"}
    asked = 0
    for backend in sorted({row.backend for row in rows} | {"buda"}):
        by_name = ByName(rows, backend)
        for name in sorted(names):
            for params in ({}, {BODY: "stablehlo.add"}):
                test = outcome(tmp_path, Status.COMPILE_FAILED, Stage.COMPILE, "it needs add here")
                test = test.model_copy(update={"op_name": name, "op_params": params, "backend": backend})
                row = match(test, rows=rows)
                assert match(test, rows=by_name.about(test)) is row
                asked += row is not None
    assert asked > 50
