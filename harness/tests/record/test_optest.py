"""The record that is made of a row: what it says of the op, of its run, and of how it ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from opscope.base.places import HOME
from opscope.base.tests.each import each
from opscope.harness.record import optest
from opscope.harness.record.optest import RunContext, backend_label, build_test, repro_line, title, unrun_test
from opscope.harness.record.records import ImportCheck, ManifestHeader, ModelFailure, OpRow, TensorDesc, Use
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import ImportStatus, ModelStatus, Stage, Status

START = datetime(2026, 1, 2, tzinfo=UTC)
USES = (
    Use(model="b", path="main/0", location="net (b.py:1)", framework_op="conv"),
    Use(model="a", path="main/1", location="net (b.py:1)", framework_op="other"),
    Use(model="b", path="main/2"),
)
ROW = OpRow(op_id="x1", op_name="stablehlo.add", module="m", uses=USES, frontend="jax", provenance="random:0")
CONTEXT = RunContext("r", "/runs/r", backend="my/own.py", options=ResultOptions(amp_level=1), card_type="sim-n150")


def test_a_record_says_where_its_op_comes_from() -> None:
    test = build_test(ROW, CONTEXT, status=Status.SUCCESS, stage_reached=Stage.COMPARE, started=START, pcc=0.5)
    assert (test.test_case_name, test.full_test_name) == ("stablehlo.add[x1]", "b::stablehlo.add[x1]")
    assert (test.models, test.model_name, test.uses) == (("b", "a"), "b", 3)
    assert (test.locations, test.framework_op_name, test.frontend) == (("net (b.py:1)",), "conv", "jax")
    assert (test.backend, test.card_type, test.op_kind, test.provenance) == ("own", "sim-n150", "eltwise", "random:0")
    assert (test.amp_level, test.data_format, test.pcc, test.stage_reached) == (1, "", 0.5, Stage.COMPARE)
    assert (test.success, test.skipped, test.error_message, test.error_signature) == (True, False, None, None)
    bare = build_test(
        ROW.model_copy(update={"uses": (), "held_to": "stablehlo.dot_general"}),
        CONTEXT,
        status=Status.STOPPED,
        started=START,
    )
    assert (bare.full_test_name, bare.model_name, bare.framework_op_name) == ("stablehlo.add[x1]", "", "")
    assert (bare.op_kind, bare.success, bare.skipped, bare.stage_reached) == ("matmul", True, False, Stage.SPLIT)


def test_a_record_is_printed_as_a_line() -> None:
    right = build_test(ROW, CONTEXT, status=Status.SUCCESS, stage_reached=Stage.COMPARE, started=START)
    assert repr(right) == str(right) == "OpTest(stablehlo.add [x1] success on own)"
    wrong = right.model_copy(
        update={"status": Status.RUN_FAILED, "failed_stage": Stage.RUN, "error_message": "no room " * 40}
    )
    assert repr(wrong).startswith("OpTest(stablehlo.add [x1] run_failed at run on own: no room no room")
    assert (len(repr(wrong)), repr(wrong)[-4:]) == (120, "...)")


def test_an_end_is_never_before_its_start() -> None:
    later = START + timedelta(seconds=9)
    for started, ended, times in (
        (START, later, (START, later)),
        (later, START, (later, later)),
        (None, START, (START, START)),
    ):
        test = build_test(ROW, CONTEXT, status=Status.SUCCESS, started=started, ended=ended)
        assert (test.test_start_ts, test.test_end_ts) == times
    assert build_test(ROW, CONTEXT, status=Status.SUCCESS, started=START).test_end_ts > later


def test_only_a_failure_has_a_fingerprint() -> None:
    for status, signed in ((Status.CRASHED, True), (Status.COMPILE_FAILED, True), (Status.STOPPED, False)):
        test = build_test(ROW, CONTEXT, status=status, started=START, error="no\n  kernel")
        assert test.error_message == "no kernel"
        assert (test.error_signature is not None) is signed
    signatures = [
        build_test(
            ROW, CONTEXT, status=Status.CRASHED, started=START, error="no", stage_reached=reached, failed_stage=failed
        ).error_signature
        for reached, failed in ((Stage.RUN, None), (Stage.COMPILE, Stage.RUN), (Stage.RUN, Stage.COMPARE))
    ]
    assert signatures[0] == signatures[1] != signatures[2]
    for status in (Status.SKIPPED, Status.NOT_RUN):
        unrun = unrun_test(ROW, CONTEXT, status, "deselected")
        assert (unrun.skipped, unrun.success, unrun.error_message) == (True, False, "deselected")
        assert unrun.test_start_ts == unrun.test_end_ts


def test_a_title_has_three_shapes_at_most() -> None:
    descs = tuple(TensorDesc(shape=shape, data_type="f32") for shape in ((2, 3), (), (4,), (5,)))
    for count, shapes in ((0, ""), (1, "2x3xf32"), (3, "2x3xf32, f32, 4xf32"), (4, "2x3xf32, f32, 4xf32, ...")):
        test = build_test(
            ROW.model_copy(update={"inputs": descs[:count]}), CONTEXT, status=Status.SUCCESS, started=START
        )
        assert title(test) == f"stablehlo.add [x1] ({shapes})"


def test_the_line_that_runs_an_op_again_names_what_is_not_usual() -> None:
    line = "pytest --op-by-op --op x1 --run-dir r"
    assert repro_line("x1", RunContext("r", "/runs/r")) == line
    assert repro_line("x1", CONTEXT) == f"{line} --backend own --amp-level 1"
    context = RunContext("r", "/runs/r", options=ResultOptions(seed=3, workflow="full", until=Stage.RUN))
    assert repro_line("x1", context) == f"{line} --until run"  # the folder has the program and its values
    served = RunContext("r", "/runs/r", "pjrt:/build/libx.so", server="http://ci:8090/")
    assert repro_line("x1", served) == "pytest --op-by-op --op x1 --run-dir http://ci:8090/r --backend pjrt-libx"


@each(
    ("backend", "label"),
    [
        ("xla", "xla"),
        ("a/b.py", "b"),
        ("a\\b.yaml", "b"),
        ("b.yml", "b"),
        ("b.pyc", "b.pyc"),
        ("/", ""),
        ("pjrt:cuda", "pjrt-cuda"),
        ("pjrt:/a/libx.so", "pjrt-libx"),
        ("tt:../b/x.y.so", "tt-x.y"),
        ("command:a/b.yaml", "b"),
        ("C:\\a\\b.py", "b"),
    ],
)
def test_a_backend_is_called_by_its_files_name(backend: str, label: str) -> None:
    assert backend_label(backend) == label


# --- other records


@each(
    ("status", "expected", "red", "text"),
    [
        (ImportStatus.AGREES, "", False, "agrees with torch 2, off"),
        (ImportStatus.AGREES, "unexpected pass: x", True, "unexpected pass: x"),
        (ImportStatus.DIFFERS, "", True, "import_differs: torchax 1 against torch 2, result 0 at n/Mod: off"),
        (ImportStatus.DIFFERS, "known: x", False, "import_differs: torchax 1 against torch 2, result 0 at n/Mod: off"),
        (ImportStatus.NOT_CHECKED, "", False, "import not checked: off"),
    ],
)
def test_an_import_in_one_line(status: ImportStatus, expected: str, red: bool, text: str) -> None:
    check = ImportCheck(
        model="m",
        status=status,
        importer="torchax 1",
        held_to="torch 2",
        output=0,
        node="n/Mod",
        error="off",
        expected=expected,
    )
    assert (check.fails_run, check.text) == (red, text)
    bare = check.model_copy(update={"output": None, "node": ""})
    assert bare.text == text.replace(", result 0 at n/Mod", "")
    if status is ImportStatus.AGREES:
        assert check.model_copy(update={"error": ""}).text == text.removesuffix(", off")


@each(
    ("status", "expected", "red"),
    [
        (Status.CRASHED, "", True),
        (Status.CRASHED, "known: x", False),
        (Status.SUCCESS, "", False),
        (Status.SUCCESS, "unexpected pass: x", True),
        (Status.STOPPED, "", False),
    ],
)
def test_an_op_is_red_if_its_end_is_not_what_was_expected(status: Status, expected: str, red: bool) -> None:
    test = build_test(ROW, CONTEXT, status=status, started=START, expected=expected)
    assert test.fails_run is red


def test_models_are_counted_by_what_became_of_them() -> None:
    failed = [ModelFailure(model=name, framework="", status=ModelStatus.BUILD_FAILED, error="no") for name in "xy"]
    late = ModelFailure(model="z", framework="", status=ModelStatus.NOT_RUN, error="budget")
    header = ManifestHeader(
        models=("a", "b", "c"), export_dirs=("e",) * 3, module_ops={}, structural={}, failed=(*failed, late)
    )
    assert header.by_outcome() == {"ran": 3, "build_failed": 2, "not_run": 1}


def test_an_error_names_no_checkout() -> None:
    """Its record may be kept and shown in another one."""
    said = f"no kernel at {Path(optest.__file__)}:12, called by {Path(np.__file__).parent}/core.py, see /etc/x.conf"
    test = build_test(ROW, CONTEXT, status=Status.RUN_FAILED, failed_stage=Stage.RUN, started=START, error=said)
    wanted = "no kernel at harness/record/optest.py:12, called by numpy/core.py, see /etc/x.conf"
    assert test.error_message == wanted
    elsewhere = said.replace(str(HOME), "/somewhere/else")
    moved = build_test(ROW, CONTEXT, status=Status.RUN_FAILED, failed_stage=Stage.RUN, started=START, error=elsewhere)
    assert test.error_signature == moved.error_signature
