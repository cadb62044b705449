"""Failures run again, in real lanes: every time, now and then, or the machine's doing; and what is kept of that."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from opscope.base import machine
from opscope.base.tests.captured import captured
from opscope.harness.climb import reruns
from opscope.harness.climb.reruns import Reruns
from opscope.harness.climb.result_cache import ResultCache
from opscope.harness.engine.climber import Climber, Terms
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.record import machine_faults, store
from opscope.harness.record.optest import RunContext, build_test, now
from opscope.harness.record.records import OpTest, ResultCheck
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import FAULTY, add_row
from opscope.harness.tests.without_plugins import WITHOUT_PLUGINS

REFUSED = "compile_failed at compile"
ENDS = {
    "compile:refuse": ("deterministic", [REFUSED] * 3),
    "run:wrong": ("deterministic", ["wrong_result at compare"] * 3),
    "run:varying": ("varying", ["wrong_result at compare"] * 3),
    "compile:once": ("flaky", [REFUSED, "success", "success"]),
    "compile:other": ("flaky", [REFUSED] * 3),
    "run:killed-once": ("", []),
}


@pytest.fixture(scope="module")
def climb(tmp_path_factory: pytest.TempPathFactory):
    """Climbs one faulty op in a run of its own; all runs share one cache."""
    folder = tmp_path_factory.mktemp("reruns")
    (folder / "marks").mkdir()
    runs: list[Lane] = []

    def climb(module: str, count: int = 2, op_id: str = "") -> tuple[OpTest, int]:
        context = RunContext(f"r{len(runs)}", str(folder / f"run{len(runs)}"), FAULTY)
        lane = Lane(LaneConfig(context, {"toy": str(folder)}, environment={"FAULTY_MARKS": str(folder / "marks")}))
        runs.append(lane)
        with lane:
            cache = ResultCache(folder / "cache", context, lane.ready())
            with Climber(
                context, lane, store.Journal(Path(context.run_dir), "main"), Terms(cache, reruns=Reruns(count))
            ) as climber:
                row = add_row(folder, op_id or module.replace(":", "-"), module.encode())
                test, verdict = climber.climb(row)
        green = test.success or test.status is Status.NOT_RUN
        assert verdict.outcome == ("pass" if green else "fail"), "no rerun makes a failure green"
        return test, lane.starts

    return climb


QUICK = ("compile:once", "run:killed-once")


@pytest.mark.parametrize("module", [pytest.param(m, marks=[] if m in QUICK else [pytest.mark.slow]) for m in ENDS])
def test_label(climb, module: str) -> None:
    label, ends = ENDS[module]
    test, starts = climb(module)
    assert test.stability == label
    assert test.flaky is (label in ("flaky", "infrastructure"))
    assert [re.sub(" [0-9a-f]{12}$", "", end.partition(": ")[0]) for end in test.outcomes] == ends
    digests = {end.partition(": ")[2] for end in test.outcomes}
    assert len(digests) == (3 if label == "varying" else min(1, len(ends))), "of each run's results, where these differ"
    if not ends:
        assert (test.status, starts) == (Status.SUCCESS, 2), "whoever killed it, the op is not to blame"
        return
    assert starts == 3, "each run has a child of its own"
    assert test.status.value == ends[0].split()[0], "the record stays the failure that it was"


def test_what_is_killed_twice_has_not_run_and_nothing_of_it_is_kept(climb) -> None:
    test, starts = climb("run:killed-twice")
    assert (test.status, test.stability, starts) == (Status.NOT_RUN, "", 2)
    test, starts = climb("run:killed-twice")
    assert (test.status, test.cached_from) == (Status.SUCCESS, ""), "the next run takes it up"


def test_a_rerun_that_is_killed_says_nothing(tmp_path: Path) -> None:
    test, killed = record(tmp_path, "op"), record(tmp_path, "op", "killed by SIGTERM", status=Status.NOT_RUN)
    assert Reruns(2).label(test, lambda: killed) is test


def test_a_success_is_not_run_again_and_0_runs_nothing_again(climb) -> None:
    test, starts = climb("fine")
    assert (test.stability, test.outcomes, starts) == ("", (), 1)
    test, starts = climb("compile:refuse", 0, "unlabelled")
    assert (test.status, test.stability, starts) == (Status.COMPILE_FAILED, "", 1)


def test_runs_that_end_otherwise_and_give_other_results_name_these(tmp_path: Path) -> None:
    """Two wrong results that differ and a right one: which runs gave the same bits is seen."""

    def ended(digest: str, status: Status = Status.WRONG_RESULT) -> OpTest:
        failed = record(tmp_path, "op", "3 of 4 differ", status=Status.WRONG_RESULT)
        result = ResultCheck(
            passed=status is Status.SUCCESS, pcc=None, relative_l2=None, max_abs=None, tolerance="f32", digest=digest
        )
        return failed.model_copy(update={"status": status, "results": (result,)})

    later = iter([ended("b" * 32), ended("c" * 32, Status.SUCCESS)])
    test = Reruns(2).label(ended("a" * 32), lambda: next(later))
    assert test.stability == "flaky"
    assert [end.rpartition(": ")[2] for end in test.outcomes] == [f"result 0 {each * 32}" for each in "abc"]
    same = ended("a" * 32)
    assert ": " not in Reruns(1).label(same, lambda: same).outcomes[1], "alike: the record's digest is that of both"


@pytest.mark.slow
def test_the_cache_keeps_labels_and_no_flaky_verdict(climb) -> None:
    climb("compile:refuse", 2, "kept")
    kept, starts = climb("compile:refuse", 2, "kept")
    assert (kept.cached_from != "", kept.stability, starts) == (True, "deterministic", 1)
    climb("compile:refuse", 0, "later")
    assert climb("compile:refuse", 0, "later")[0].cached_from
    labelled, starts = climb("compile:refuse", 2, "later")  # kept without a label: run once more, for the label
    assert (labelled.cached_from, labelled.stability, starts) == ("", "deterministic", 3)
    climb("compile:other", 2, "unsteady")
    assert not climb("compile:other", 2, "unsteady")[0].cached_from


def record(tmp_path: Path, op_id: str, message: str = "no kernel", **fields) -> OpTest:
    status = fields.pop("status", Status.COMPILE_FAILED)
    return build_test(
        add_row(tmp_path, op_id),
        RunContext("r", "run"),
        status=status,
        started=now(),
        error=message,
        failed_stage=Stage.COMPILE,
        **fields,
    )


def test_a_refusal_proved_often_enough_is_not_run_again(tmp_path: Path) -> None:
    again, ran = Reruns(2), []

    def label(op_id: str, message: str = "no kernel") -> OpTest:
        test = record(tmp_path, op_id, message)
        return again.label(test, lambda: ran.append(op_id) or test)

    for number in range(5):
        assert label(f"op{number}").stability == "deterministic"
    assert ran == [f"op{number}" for number in range(3) for _ in range(2)]
    label("op9", "another reason")
    assert ran[-2:] == ["op9", "op9"]
    test = record(tmp_path, "op10", "one more")
    assert Reruns(3).label(test, lambda: test).outcomes == (reruns.outcome(test),) * 4
    assert Reruns(0).label(test, lambda: pytest.fail("expected no rerun")) is test


def test_no_run_after_the_deadline_leaves_no_label(tmp_path: Path) -> None:
    test = record(tmp_path, "op")
    assert Reruns(2).label(test, lambda: test, lambda: False) == test


def test_only_runs_that_all_failed_by_the_machine_are_put_down_to_it(tmp_path: Path) -> None:
    killed = record(tmp_path, "op", "gone", status=Status.CRASHED, crash_kind="signal SIGKILL")
    full = record(tmp_path, "op", "OSError: [Errno 28] No space left on device")
    refused, right = record(tmp_path, "op"), record(tmp_path, "op", "", status=Status.SUCCESS)
    for first, again, label in (
        (killed, [full], "infrastructure"),
        (killed, [right, right], "infrastructure"),
        (killed, [refused], "flaky"),
        (refused, [killed], "flaky"),
        (killed, [right, refused], "flaky"),
        (refused, [right], "flaky"),
    ):
        runs = iter(again)
        test = Reruns(len(again)).label(first, lambda runs=runs: next(runs))
        assert (test.stability, test.flaky) == (label, True)
        assert test.outcomes == tuple(reruns.outcome(each) for each in (first, *again))


@pytest.mark.parametrize(
    ("fields", "lacking", "fault"),
    [
        ({"status": Status.CRASHED, "crash_kind": "signal SIGKILL"}, "", True),
        ({"status": Status.CRASHED, "crash_kind": "signal SIGSEGV"}, "", False),
        ({"status": Status.CRASHED, "crash_kind": "memory"}, "", False),
        ({"status": Status.CRASHED, "crash_kind": "signal SIGSEGV"}, "1% of memory free", True),
        ({"status": Status.TIMEOUT}, "load 9.0 on 2 processors", True),
        ({"status": Status.TIMEOUT}, "", False),
        ({"message": "OSError: [Errno 28] No space left on device"}, "", True),
        ({}, "load 9.0 on 2 processors", False),
    ],
)
def test_which_failures_are_faults_of_the_machine(tmp_path: Path, fields: dict, lacking: str, fault: bool) -> None:
    assert machine_faults.fault_of_machine(record(tmp_path, "op", **fields), lacking) is fault


@pytest.mark.parametrize(
    ("load", "processors", "available", "said"),
    [
        (4.0, 2, 5, ""),
        (4.1, 2, 90, "load 4.1 on 2 processors"),
        (2.1, None, 90, "load 2.1 on 1 processors"),
        (0.0, 2, 4, "4% of memory free"),
    ],
)
def test_pressure_is_twice_a_load_per_processor_or_less_than_a_twentieth_of_memory(
    monkeypatch: pytest.MonkeyPatch,
    load: float,
    processors: int | None,
    available: int,
    said: str,
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 77.0, 77.0))
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(machine, "free_memory", lambda: available)
    monkeypatch.setattr(machine, "machine_memory", lambda: 100)
    assert machine_faults.pressure() == said


def test_pressure_is_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_faults, "LOADED", 1e9)
    monkeypatch.setattr(machine_faults, "SCARCE", 1.1)
    assert machine_faults.pressure().endswith("of memory free")


OWNER = """
def pytest_addoption(parser):
    parser.getgroup("rerunfailures").addoption("--reruns", action="store", dest="reruns", type=int)

def pytest_configure(config):
    print("they see", config.option.reruns)
"""


@pytest.mark.parametrize("ops", [pytest.param(True, marks=pytest.mark.slow), False])
def test_another_plugins_option_of_that_name_is_read_and_left_to_it(tmp_path: Path, ops: bool) -> None:
    """pytest-rerunfailures has `--reruns` too; a module of its name with its option stands for it here."""
    (tmp_path / "pytest_rerunfailures.py").write_text(OWNER)
    (tmp_path / "net.mlir").write_text(
        "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %0 = stablehlo.custom_call @nobody(%a) : (tensor<2xf32>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n"
    )
    words = ["--model", "net.mlir", "--op-by-op", "--no-report", "--no-cache"] if ops else ["--collect-only", "-q"]
    command = [sys.executable, "-P", "-m", "pytest", *WITHOUT_PLUGINS, "-p", "pytest_rerunfailures", *words]
    run = captured([*command, "--reruns", "1"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert f"they see {'None' if ops else '1'}" in run.stdout, run.stdout + run.stderr
    if ops:
        assert "deterministic: the same in all 2 runs" in run.stdout
