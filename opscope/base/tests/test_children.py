"""Child processes: what comes back, every way to end, and that nothing of them is left."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from opscope.base.children import child as child_module
from opscope.base.children import process_tree
from opscope.base.children.call import Outcome, call
from opscope.base.children.child import CappedLog, Child
from opscope.base.children.ending import Cause, ChildEnded, Deadline, Ending, of_return_code
from opscope.base.children.forks import WarmFork
from opscope.base.children.parent_death import bound
from opscope.base.children.process import XLA_FLAG, Local, Process, child_environment
from opscope.base.tests.own_fork_server import own_fork_server
from opscope.base.tests.processes import are_gone

HERE = "opscope.base.tests.child_functions"


def harmed(how: str, **limits: float) -> Outcome:
    return call(f"{HERE}:harm", {"how": how}, **limits)  # type: ignore[arg-type]


def comes_true(condition: Callable[[], bool], seconds: float = 20) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


def test_a_call_gives_the_result_the_messages_and_the_output(tmp_path: Path) -> None:
    seen: list[object] = []
    log = CappedLog(tmp_path / "log.txt")
    outcome = call(f"{HERE}:add", {"numbers": [1, 2, 3]}, seconds=60, memory=1 << 30, on_message=seen.append, log=log)
    assert (outcome.ending.ok, outcome.ending.cause, outcome.result) == (True, Cause.RETURNED, 6)
    assert seen == [{"seen": 1}, {"seen": 2}, {"seen": 3}]
    assert outcome.log.last_line() == "added"
    log.close()
    assert (tmp_path / "log.txt").read_text() == "added\n"


@pytest.mark.parametrize(
    ("how", "ending"),
    [
        ("raise", Ending(Cause.RAISED, "ValueError: two", 1)),
        ("exit", Ending(Cause.EXIT, "left with exit code 3", 3)),
        ("leave", Ending(Cause.EXIT, "left with exit code 0", 0)),
        ("kill", Ending(Cause.SIGNAL, "killed by SIGKILL", 9)),
        ("fault", Ending(Cause.SIGNAL, "killed by SIGSEGV", 11)),
        ("hang up", Ending(Cause.PROTOCOL, "closed its socket and went on")),
        ("garbage", Ending(Cause.PROTOCOL, "frame: expected b'OPSC', got b'no frame'")),
    ],
)
def test_every_end_is_typed_and_no_success(how: str, ending: Ending, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "hang up":
        monkeypatch.setattr(child_module, "TO_END", 0.1)
    outcome = harmed(how, seconds=60)
    assert replace(outcome.ending, traceback="") == ending
    assert not outcome.ending.ok
    assert outcome.result is None
    assert f"about to {how}" in outcome.log.tail()
    if how == "raise":
        assert "in harm" in outcome.ending.traceback
    if how == "fault":
        assert outcome.log.last_line() == "Fatal Python error: Segmentation fault"


def test_the_deadline_and_the_memory_limit_end_a_child() -> None:
    began = time.monotonic()
    assert harmed("wait", seconds=0.3).ending == Ending(Cause.TIMEOUT, "no answer within 0.3 s")
    full = harmed("fill memory", seconds=60, memory=100 << 20).ending
    assert (full.cause, full.kind) == (Cause.MEMORY, "memory")
    assert full.text.endswith("100 MiB allowed")
    assert time.monotonic() - began < 40


def test_a_child_that_reports_all_the_time_is_watched_too() -> None:
    late = call(f"{HERE}:report_forever", {}, seconds=0.2, memory=4 << 30)
    full = call(f"{HERE}:report_forever", {}, seconds=60, memory=100 << 20)
    assert [late.ending.cause, full.ending.cause] == [Cause.TIMEOUT, Cause.MEMORY]


def test_the_words_for_an_end() -> None:
    kinds = [Ending(Cause.EXIT, "", 3), Ending(Cause.RAISED, "", 1), Ending(Cause.TIMEOUT, ""), of_return_code(-6)]
    assert [ending.kind for ending in kinds] == ["exit 3", "exit 1", "timeout", "signal SIGABRT"]
    assert of_return_code(-100).text == "killed by SIG100"


def test_a_caller_may_end_a_child_and_an_error_of_its_own_leaves_none_behind() -> None:
    def stop() -> None:
        raise ChildEnded(Ending(Cause.TIMEOUT, "too long at one op"))

    assert call(f"{HERE}:harm", {"how": "wait"}, watch=stop).ending.text == "too long at one op"
    numbers: list[int] = []

    def refuse(message: dict[str, list[int]]) -> None:
        numbers.extend(message["strays"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(f"{HERE}:leave_strays", {"returns": False}, on_message=refuse)
    assert len(numbers) == 2
    assert are_gone(*numbers)


def test_what_a_child_started_ends_with_it() -> None:
    messages: list[dict[str, list[int]]] = []

    def watch() -> None:
        if messages:
            raise ChildEnded(Ending(Cause.TIMEOUT, "enough"))

    outcome = call(f"{HERE}:leave_strays", {"returns": False}, seconds=60, on_message=messages.append, watch=watch)
    assert outcome.ending.cause is Cause.TIMEOUT
    assert are_gone(*messages[0]["strays"])
    numbers = call(f"{HERE}:leave_strays", {"returns": True}).result
    assert are_gone(*numbers), "also where its function returned"


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("dies", [True, False])
def test_daemons_end_with_the_child_that_started_them(
    monkeypatch: pytest.MonkeyPatch, dies: bool, grouped: bool
) -> None:
    if not grouped:
        monkeypatch.setattr(process_tree, "make_cgroup", lambda: None)
    messages: list[dict[str, int]] = []

    def watch() -> None:
        if messages and not dies:
            raise ChildEnded(Ending(Cause.TIMEOUT, "enough"))

    ending = call(f"{HERE}:leave_daemon", {"dies": dies}, seconds=60, on_message=messages.append, watch=watch).ending
    assert ending.cause is (Cause.SIGNAL if dies else Cause.TIMEOUT)
    assert are_gone(messages[0]["daemon"])


def test_what_a_forked_copy_sends_is_dropped() -> None:
    messages: list[dict[str, str]] = []
    outcome = call(f"{HERE}:answer_from_copy", {}, seconds=60, on_message=messages.append)
    assert (outcome.ending.text, outcome.result, messages) == ("returned", "done", [{"from": "the child"}])


def test_a_cgroup_is_made_where_this_process_may_write_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process_tree, "_own_folder", lambda _: tmp_path)
    assert process_tree.make_cgroup() is None, "no folder of the kernel's, which would have a file to kill with"
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(process_tree, "_own_folder", lambda _: None)
    assert process_tree.make_cgroup() is None


def test_a_group_goes_with_the_groups_that_were_made_in_it() -> None:
    """One that stays costs each later process the time of all tries."""
    group = process_tree.make_cgroup()
    if group is None:
        pytest.skip("no cgroup can be made here")
    inner = group.folder / "opscope-inner" / "opscope-innermost"
    inner.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        (inner / "cgroup.procs").write_text(str(sleeping.pid))
        group.kill()
        assert sleeping.wait(10) == -signal.SIGKILL
    group.kill()
    assert not group.folder.exists()


def test_groups_of_dead_processes_are_removed_but_not_those_of_another_pid_namespace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    own, others = (tmp_path / f"opscope-{space}-{ended.pid}-1" for space in (_own_namespace(), "ns1"))
    living = tmp_path / f"opscope-{_own_namespace()}-{os.getpid()}-1"
    killed: list[Path] = []
    monkeypatch.setattr(process_tree.Cgroup, "kill", lambda group: killed.append(group.folder))
    for folder in (own, others, living, tmp_path / f"opscope-{ended.pid}-1"):
        folder.mkdir()
    process_tree._clear(tmp_path)
    assert killed == [own]


def _own_namespace() -> str:
    return f"ns{Path('/proc/self/ns/pid').readlink().name.strip('pid:[]')}"


def test_a_child_that_cannot_be_started_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_files() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pipe", no_files)
    outcome = call(f"{HERE}:add", {"numbers": []})
    assert not outcome.ending.ok
    assert outcome.log.last_line() == "no process could be started: [Errno 24] Too many open files"


def test_a_child_answers_again_and_again_and_messages_may_be_large() -> None:
    with Child(f"{HERE}:echo") as child:
        for text in ("a", "x" * 3_000_000, "b"):
            child.send({"text": text})
            assert child.receive(Deadline(60)) == {"text": text}
        assert child.wait(0)
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(ChildEnded, match=r"no answer within 0.1 s \(stopped\)"):
            child.receive(Deadline(0.1))
        os.kill(child.pid, signal.SIGKILL)
        with pytest.raises(ChildEnded, match="killed by SIGKILL"):
            child.receive(Deadline(60))
        assert not child.wait(0)


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = f"from opscope.base.tests.child_functions import call_hang; call_hang({str(mark)!r})"
    parent = subprocess.Popen([sys.executable, "-c", script])
    assert comes_true(lambda: mark.is_file() and bool(mark.read_text()))
    parent.kill()
    parent.wait()
    assert are_gone(int(mark.read_text()))


def test_a_bound_program_dies_with_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
    script = (
        "import subprocess, time; from opscope.base.children.parent_death import bound;"
        f"subprocess.Popen(bound({command!r})); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    assert are_gone(child)
    late = [sys.executable, "-P", "-m", "opscope.base.children.parent_death", "1", *command]
    assert subprocess.run(late, check=False).returncode == 1, "its parent is gone already"


def test_a_program_is_interrupted_and_then_killed(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(2, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    polite = "import time\ntry:\n print('up', flush=True); time.sleep(600)\nexcept KeyboardInterrupt: print('closed')"
    for code, ending, said in ((polite, 0, "up\nclosed\n"), (deaf, -9, "up\n")):
        log = tmp_path / f"{ending}.txt"
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background
        try:
            with log.open("wb") as output:
                process = Process(bound([sys.executable, "-c", code]), output.fileno(), folder=tmp_path)
        finally:
            signal.signal(signal.SIGINT, before)
        assert comes_true(lambda log=log: log.read_text() == "up\n")
        assert process.wait(0) is None
        process.interrupt(0.3 if ending else 60)
        assert process.wait(0) == ending
        assert log.read_text() == said


def test_the_environment_is_one_thread_offline_and_as_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_other")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    names = ["OMP_NUM_THREADS", "NPROC", "XLA_FLAGS", "JAX_PLATFORMS", "HF_HUB_OFFLINE", "MINE"]
    monkeypatch.chdir(tmp_path)
    with own_fork_server():
        got = call(f"{HERE}:environment", {"names": names}, environment={"MINE": "yes"}).result
    assert [got[name] for name in names] == ["1", "1", f"--xla_other {XLA_FLAG}", "cpu", "1", "yes"]
    assert str(tmp_path) not in got["path"], "the working folder is not searched for modules"
    assert "" not in got["path"]
    monkeypatch.setenv("XLA_FLAGS", child_environment()["XLA_FLAGS"])
    assert child_environment()["XLA_FLAGS"] == f"--xla_other {XLA_FLAG}", "a child of a child has the flag once"


@pytest.mark.parametrize(
    ("function", "cause", "kind"),
    [
        # quick: the first and the last piece of [exception]
        pytest.param(lambda: None, Cause.RETURNED, "returned", marks=pytest.mark.slow),
        (lambda: [].pop(), Cause.RAISED, "exit 1"),
        (os.abort, Cause.SIGNAL, "signal SIGABRT"),
        pytest.param(lambda: os._exit(3), Cause.EXIT, "exit 3", marks=pytest.mark.slow),  # quick: [abort]
        (lambda: time.sleep(60), Cause.TIMEOUT, "timeout"),
        # a MemoryError; quick: [exception]
        pytest.param(lambda: bytearray(1 << 40) and None, Cause.RAISED, "exit 1", marks=pytest.mark.slow),
    ],
    ids=["fine", "exception", "abort", "exit", "hang", "memory"],
)
def test_a_fork_survives_or_ends_in_a_typed_way(function: Callable[[], object], cause: Cause, kind: str) -> None:
    seconds = 0.1 if cause is Cause.TIMEOUT else 60
    ending = call(Local(lambda parent: function()), {}, seconds=seconds).ending
    assert (ending.cause, ending.kind) == (cause, kind)
    if cause is Cause.RAISED:  # Python's own exceptions are no crash
        cause, kind = Cause.RETURNED, "returned"
    warm = WarmFork(lambda data: function() if data else None)
    endings = [warm.run(data, seconds=seconds if data else 60) for data in (b"", b"x", b"")]
    warm.close()
    assert [(ending.cause, ending.kind) for ending in endings] == [
        (Cause.RETURNED, "returned"),
        (cause, kind),
        (Cause.RETURNED, "returned"),
    ]


def test_a_warm_fork_is_made_once_and_keeps_no_file_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "forks"
    with path.open("w") as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        warm = WarmFork(lambda data: path.open("a").write(f"{os.getpid()} {len(data)}\n"))
        for size in (0, 1, 5 << 20):  # the last is more than a socket holds
            assert warm.run(bytes(size), seconds=60).ok
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lines = [line.split() for line in path.read_text().splitlines()]
    assert [int(size) for _, size in lines] == [0, 1, 5 << 20]
    (pid,) = {int(pid) for pid, _ in lines}
    os.kill(pid, signal.SIGKILL)
    assert are_gone(pid)
    assert warm.run(b"", seconds=60).ok, "one that ended meanwhile is replaced"
    assert call(Local(lambda parent: warm.run(b"copy", seconds=60).ok), {}, seconds=60).result
    assert warm.run(b"", seconds=60).ok
    warm.close()
    forks = [int(line.split()[0]) for line in path.read_text().splitlines()]
    assert len(set(forks)) == 3, "a fork of this process uses one of its own"
    assert forks[-3] == forks[-1]
    assert are_gone(*forks)


def test_a_warm_fork_may_hold_so_much_more_than_its_parent() -> None:
    mine = bytearray(64 << 20)

    def hold(data: bytes) -> None:
        taken = bytearray(int(data))
        time.sleep(0.2)
        assert len(taken) != len(mine)

    warm = WarmFork(hold)
    endings = [warm.run(size, seconds=60, memory=32 << 20) for size in (b"1000", b"100000000")]
    warm.close()
    assert [ending.cause for ending in endings] == [Cause.RETURNED, Cause.MEMORY]
    assert "32 MiB allowed" in endings[1].text


def test_the_package_is_small() -> None:
    code = (
        "import sys; before = set(sys.modules); import opscope.base.children.call, opscope.base.children.inside;"
        "import opscope.base.children.forks, opscope.base.children.process, opscope.base.children.forks;"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["opscope"]
