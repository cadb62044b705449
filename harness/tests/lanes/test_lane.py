"""Lanes with real faults in real processes: each becomes its op's record, and the next op is none the worse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opscope.base.tests.processes import are_gone, is_running
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import FAULTY, add_row


def config(folder, **changes):
    context = RunContext("r1", str(folder / "run"), changes.pop("backend", FAULTY))
    return LaneConfig(context, {"toy": str(folder)}, **changes)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lane")
    with Lane(config(folder, op_timeout=60, memory_limit=280 << 20, thread_limit=30)) as lane:
        yield lane, folder


FAULTS = [
    ("sigsegv", "signal SIGSEGV"),
    ("abort", "signal SIGABRT"),
    ("exit-0", "exit 0"),
    ("sys-exit", "exit 3"),
    ("garbage", "protocol"),
    ("early-reply", "protocol"),
    ("close-pipe", "protocol"),
    ("close-pipe-and-go-on", "exit 1"),
    ("spoil-memory", "signal SIGABRT"),
    ("memory", "memory"),
    ("threads", "threads"),
]


# quick: test_children.py::test_every_end_is_typed_and_no_success has each; here the others of a kind are
# [sigsegv-signal SIGSEGV], [exit-0-exit 0] and [garbage-protocol]
SLOW = {"abort", "spoil-memory", "sys-exit", "close-pipe", "close-pipe-and-go-on"}


@pytest.mark.parametrize(
    ("fault", "kind"), [pytest.param(*each, marks=[pytest.mark.slow] * (each[0] in SLOW)) for each in FAULTS]
)
def test_a_crash_is_the_record_of_its_op_and_the_next_gets_a_fresh_lane(shared, fault, kind):
    lane, folder = shared
    test = lane.run(add_row(folder, fault, f"run:{fault}".encode()))
    assert (test.status, test.crash_kind) == (Status.CRASHED, kind), test.error_message
    assert (test.stage_reached, test.failed_stage) == (Stage.COMPILE, Stage.RUN)
    assert [time.stage for time in test.stages] == [Stage.COMPILE, Stage.RUN]
    assert test.card_type == "host"
    assert not test.success
    assert test.error_signature
    text = (folder / "run" / test.artifact).read_text()
    if fault == "sigsegv":
        assert "faulty.py" in text
        assert "in sigsegv" in text
    before = lane.starts
    assert lane.run(add_row(folder, "fine")).status is Status.SUCCESS
    assert lane.starts == before + 1
    assert lane.run(add_row(folder, "fine")).status is Status.SUCCESS
    assert lane.starts == before + 1


def test_a_kill_from_outside_is_no_answer_of_the_op(shared):
    """It runs once more, and alone; then it has not run, and the next op finds the lane as it was."""
    lane, folder = shared
    starts = lane.starts
    test = lane.run(add_row(folder, "sigkill", b"run:sigkill"), attempt=3)
    assert (test.status, test.attempt, test.crash_kind) == (Status.NOT_RUN, 3, None)
    assert test.error_message == "killed by the system (SIGKILL), probably out of memory, at run"
    assert "about to die" in (folder / "run" / "artifacts" / "sigkill" / "crash-faulty.txt").read_text()
    assert lane.run(add_row(folder, "fine")).status is Status.SUCCESS
    assert lane.starts - starts in (2, 3), "one for each try, and one for the next op"


def test_an_export_that_is_completed_while_its_op_is_on_the_way_is_read_at_its_new_place(shared):
    lane, folder = shared
    row = add_row(folder, "fine")
    starts = lane.starts
    lane.config.export_dirs["toy"], lane.config.final_dirs["toy"] = str(folder / ".making-1"), str(folder)
    try:
        assert lane.run(row).status is Status.SUCCESS
        del lane.config.final_dirs["toy"]
        assert lane.run(row).status is Status.NOT_RUN, "files that are gone are damage"
    finally:
        lane.config.export_dirs["toy"] = str(folder)
    assert lane.starts <= starts + 1, "the child that looked again stayed"


@pytest.mark.parametrize("fault", ["sigstop", pytest.param("stray", marks=pytest.mark.slow)])
def test_a_stopped_group_and_a_stray_child_end_at_the_time_limit(tmp_path, fault):
    mark = tmp_path / "mark"
    with Lane(config(tmp_path, op_timeout=0.5, environment={"FAULTY_MARK": str(mark)})) as lane:
        test = lane.run(add_row(tmp_path, fault, f"run:{fault}".encode()))
        assert (test.status, test.failed_stage) == (Status.TIMEOUT, Stage.RUN)
        if fault == "sigstop":
            assert test.error_message.endswith("(stopped) at run"), test.error_message
            assert "about to stop" in (tmp_path / "run" / test.artifact).read_text()
        else:
            assert not _with_variable(f"STRAY={mark}")
        assert lane.run(add_row(tmp_path, "fine")).status is Status.SUCCESS


def test_a_flood_of_output_and_closed_outputs_are_no_faults_of_the_op(tmp_path):
    log = tmp_path / "lane.log"
    with Lane(config(tmp_path, log=log)) as lane:
        assert lane.run(add_row(tmp_path, "flood", b"run:flood")).status is Status.SUCCESS
        closed = lane.run(add_row(tmp_path, "closed", b"run:close-output"))
        assert closed.status is Status.SUCCESS
        assert [text.partition(":")[0] for text in closed.left_behind] == ["descriptor 1", "descriptor 2"]
        assert lane.run(add_row(tmp_path, "fine")).status is Status.SUCCESS
        assert lane.starts == 2
    assert log.stat().st_size < 4_300_000


def test_leftovers_of_an_op_are_not_blamed_on_the_next(tmp_path):
    log = tmp_path / "lane.log"
    with Lane(config(tmp_path, log=log, memory_limit=330 << 20)) as lane:
        timer = lane.run(add_row(tmp_path, "timer", b"run:leave-timer"))
        assert timer.status is Status.SUCCESS
        assert {text.partition(":")[0] for text in timer.left_behind} >= {"timers", "current folder", "sys.stdout"}
        spoken = lane.run(add_row(tmp_path, "speak", b"run:speak"))
        assert (spoken.status, spoken.left_behind, lane.starts) == (Status.SUCCESS, (), 2)
        assert f"said in {Path.cwd()}" in log.read_text()
        assert lane.run(add_row(tmp_path, "leak", b"run:leave-memory")).status is Status.SUCCESS
        assert lane.run(add_row(tmp_path, "take", b"run:take-memory")).status is Status.SUCCESS
        assert lane.starts == 3


def test_overwritten_inputs_are_recorded_and_harm_no_later_op(tmp_path):
    with Lane(config(tmp_path)) as lane:
        wrote = lane.run(add_row(tmp_path, "wrote", b"run:scribble"))
        assert (wrote.status, wrote.overwritten_inputs) == (Status.WRONG_RESULT, (0, 1))
        fine = lane.run(add_row(tmp_path, "fine"))
        assert (fine.status, fine.overwritten_inputs) == (Status.SUCCESS, ())


def test_a_hang_ends_with_its_whole_process_group(tmp_path):
    with Lane(config(tmp_path, op_timeout=0.5)) as lane:
        lane.ready()
        group = lane._child.pid
        begin = time.monotonic()
        test = lane.run(add_row(tmp_path, "hang", b"compile:hang-deaf"))
        assert time.monotonic() - begin < 20
        assert (test.status, test.crash_kind) == (Status.TIMEOUT, None)
        assert (test.stage_reached, test.failed_stage) == (Stage.SPLIT, Stage.COMPILE)
        assert are_gone(*_group(group))
        after = lane.run(add_row(tmp_path, "after"))  # and never gets the late answer of the op before
        assert (after.op_id, after.status) == ("after", Status.SUCCESS)


def test_a_child_that_ends_while_idle_is_no_ops_fault(tmp_path):
    with Lane(config(tmp_path)) as lane:
        lane.ready()
        os.kill(lane._child.pid, signal.SIGKILL)
        while is_running(lane._child.pid):
            time.sleep(0.01)
        assert lane.run(add_row(tmp_path, "fine")).status is Status.SUCCESS
        assert lane.starts == 2


@pytest.mark.slow
def test_a_lane_works_without_pidfd_and_without_proc(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr("opscope.base.children.process_tree._PROC", tmp_path)
    with Lane(config(tmp_path, memory_limit=400 << 20)) as lane:
        for fault, kind in (("abort", "signal SIGABRT"), ("exit-0", "exit 0"), ("memory", "memory")):
            assert lane.run(add_row(tmp_path, fault, f"run:{fault}".encode())).crash_kind == kind
        assert lane.run(add_row(tmp_path, "fine")).status is Status.SUCCESS


def test_namesakes_in_the_working_folder_are_not_imported(tmp_path, monkeypatch):
    for name in ("harness", "models", "numpy", "json"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(f'hostile {__name__}')\n")
    monkeypatch.chdir(tmp_path)
    with Lane(config(tmp_path / "run")) as lane:
        assert lane.run(add_row(tmp_path / "run", "fine")).status is Status.SUCCESS


def test_output_is_capped_and_does_not_block(tmp_path):
    log = tmp_path / "lane.log"
    with Lane(config(tmp_path, log=log)) as lane:
        assert lane.run(add_row(tmp_path, "chatter", b"run:chatter")).status is Status.SUCCESS
    assert 4_000_000 < log.stat().st_size < 4_300_000


def test_unknown_backend_and_stage_are_input_errors(tmp_path):
    with Lane(config(tmp_path, backend="nul")) as lane, pytest.raises(InputError, match="try null"):
        lane.ready()
    context = RunContext("r1", str(tmp_path), FAULTY, ResultOptions(until="ttir-to-ttnn"))
    with Lane(LaneConfig(context, {})) as lane, pytest.raises(InputError, match="--until: expected a stage of faulty"):
        lane.ready()


def test_a_backend_that_does_not_import_is_one_line(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import no_such_module\n")
    with Lane(config(tmp_path, backend=str(broken))) as lane, pytest.raises(InputError, match="no_such_module"):
        lane.ready()
    broken.write_text("import os; os._exit(7)\n")
    with Lane(config(tmp_path, backend=str(broken))) as lane, pytest.raises(InputError, match="exit code 7"):
        lane.ready()


@pytest.mark.slow
def test_the_child_dies_with_its_parent(tmp_path):
    add_row(tmp_path, "hang", b"run:hang")
    script = f"""
import sys, os, threading, time
from pathlib import Path
from opscope.harness.lanes.lane import Lane
from opscope.harness.tests.lanes.test_lane import config
from opscope.harness.tests.ops import add_row
folder = Path({str(tmp_path)!r})
lane = Lane(config(folder, environment={{"FAULTY_MARK": str(folder / "mark")}}))
lane.ready()
print(lane._child.pid, flush=True)
lane.run(add_row(folder, "hang", b"run:hang"))
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    while not (tmp_path / "mark").is_file():
        time.sleep(0.02)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert are_gone(child)


def _group(leader):
    members = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            members += [int(process.name)] if os.getpgid(int(process.name)) == leader else []
        except ProcessLookupError:
            continue
    return members


def _with_variable(word):
    """Processes that live with this word in their environment."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (process / "environ").read_bytes().split(b"\0") and is_running(int(process.name)):
                pids.append(int(process.name))
        except OSError:
            continue
    return pids


def test_null_is_stopped_and_never_a_success(tmp_path):
    with Lane(config(tmp_path, backend="null")) as lane:
        test = lane.run(add_row(tmp_path, "fine"))
    assert (test.status, test.stage_reached, test.success) == (Status.STOPPED, Stage.RUN, False)
    assert (test.ran_on, test.card_type, test.pcc) == ("none", "none", None)


def test_memory_that_leaves_no_room_for_an_op_is_refused_at_the_start(tmp_path):
    with Lane(config(tmp_path)) as lane:
        lane.ready()
        held = lane._child.usage()[0]
    for share in (0.5, 1.1, 1.25):
        with Lane(config(tmp_path, memory_limit=int(share * held))) as lane:
            with pytest.raises(InputError, match=r"(that starts|with room for ops), got .* allowed") as refused:
                lane.ready()
            assert refused.value.hint == "--op-memory 8GiB"
    with Lane(config(tmp_path, memory_limit=2 * held)) as lane:
        assert lane.run(add_row(tmp_path, "fine")).status is Status.SUCCESS


# quick: a few times show that the stage is known; more look for a race
@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_rubbish_is_always_of_the_stage_that_wrote_it(shared, times):
    lane, folder = shared
    row = add_row(folder, "early-reply", b"run:early-reply")
    assert {lane.run(row).failed_stage for _ in range(times)} == {Stage.RUN}
