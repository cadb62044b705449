"""Children that are forks: no difference to an interpreter of their own, and where they must be one."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opscope.base.children import child as child_module
from opscope.base.children import forked
from opscope.base.children.call import call
from opscope.base.children.child import Child
from opscope.base.children.ending import Cause, ChildEnded, Deadline
from opscope.base.children.process_tree import children_of
from opscope.base.tests.captured import captured
from opscope.base.tests.covered import covered
from opscope.base.tests.own_fork_server import own_fork_server
from opscope.base.tests.processes import are_gone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has what the fork server needs")

HERE = "opscope.base.tests.child_functions"
THREADED = "opscope.base.tests.threaded_functions"


def kind(environment: dict[str, str] | None = None, where: str = HERE) -> str:
    outcome = call(f"{where}:kind", {}, seconds=60, environment=environment)
    assert outcome.ending.ok, outcome.log.tail()
    return outcome.result


def server() -> int:
    """The process of which the next child is a fork. Other tests may have left servers with names, of any number."""
    outcome = call(f"{HERE}:pid_and_parent", {}, seconds=60)
    assert outcome.ending.ok, outcome.log.tail()
    parent = outcome.result[1]
    assert b"fork_server" in Path(f"/proc/{parent}/cmdline").read_bytes()
    return parent


@pytest.fixture(scope="module", autouse=True)
def own_server() -> Iterator[None]:
    with own_fork_server():
        yield


@pytest.fixture
def no_server_before() -> Iterator[None]:
    forked._places[""].close()
    yield
    forked._places[""].close()


def test_a_fork_finds_what_an_interpreter_of_its_own_would_find(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert kind() == "fork"  # the server began in another folder and with another environment
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPSCOPE_WORD", "new")
    monkeypatch.delenv("PATH_OF_NOTHING", raising=False)
    as_fork = call(f"{HERE}:describe", {}, seconds=60, environment={"EXTRA": "1"})
    monkeypatch.setattr(child_module, "fork", lambda *_: None)
    as_interpreter = call(f"{HERE}:describe", {}, seconds=60, environment={"EXTRA": "1"})
    assert as_fork.result == as_interpreter.result is not None
    assert as_fork.result["folder"] == str(tmp_path)
    assert as_fork.result["environment"]["EXTRA"] == "1"
    assert as_fork.result["marks"] == 1


def test_a_child_that_stops_its_server_is_ended_and_the_next_one_runs(no_server_before: None) -> None:
    first = server()
    began = time.monotonic()
    assert call(f"{HERE}:stop_server", {}, seconds=60).result == "stopped"
    assert server() == first, "it goes on"
    assert time.monotonic() - began < 50


def test_a_child_with_its_own_settings_does_not_decide_those_of_the_server(
    no_server_before: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kind({"TF_CPP_MIN_LOG_LEVEL": "0"}) == "interpreter"
    assert kind() == "fork"
    first = server()
    monkeypatch.setenv("LANG", "C.UTF-8" if os.environ.get("LANG") != "C.UTF-8" else "C")
    with Child(f"{HERE}:echo") as child:
        assert server() != first, "this process's own settings are now others"
        second = server()
        monkeypatch.undo()
        assert kind() == "fork"
        child.send({"a": 1})
        assert child.receive(Deadline(60)) == {"a": 1}, "the second server still has this child"
    monkeypatch.setenv("LANG", "C.UTF-8" if os.environ.get("LANG") != "C.UTF-8" else "C")
    assert kind() == "fork"
    assert second not in children_of(os.getpid()), "without a child it has ended"


@pytest.mark.parametrize(
    "name",
    covered(
        ["PYTHONHASHSEED", "XLA_FLAGS", "LD_LIBRARY_PATH", "COVERAGE_PROCESS_START"],
        {"PYTHONHASHSEED": "XLA_FLAGS", "LD_LIBRARY_PATH": "XLA_FLAGS"},  # all of one list
    ),
)
def test_what_is_read_when_an_interpreter_starts_needs_one(name: str) -> None:
    value = "" if name.startswith("COVERAGE") else "1"
    if name == "XLA_FLAGS":
        value = "--xla_cpu_enable_fast_math=false"
    assert kind() == "fork"
    assert kind({name: value or os.devnull}) == "interpreter"
    assert kind() == "fork"


def test_limits_and_masks_of_today_need_a_server_that_begins_with_them() -> None:
    seen = [kind(), server()]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        seen += [kind(), server()]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    before = os.umask(0o037)
    try:
        seen += [kind(), server()]
    finally:
        os.umask(before)
    assert seen[::2] == ["fork"] * 3
    assert len(set(seen[1::2])) == 3


@pytest.mark.usefixtures("no_server_before")
def test_a_module_with_threads_is_not_forked_and_others_still_are() -> None:
    with Child(f"{HERE}:echo") as child:
        ours = server()
        assert [kind(where=THREADED), kind(where=THREADED)] == ["interpreter"] * 2
        assert kind() == "fork"
        assert server() != ours
        child.send({"a": 1})
        assert child.receive(Deadline(60)) == {"a": 1}, "the child of the server that has threads now lives on"


@pytest.mark.usefixtures("no_server_before")
def test_a_call_ahead_is_made_once_for_all_and_may_fail() -> None:
    noted = []
    for name, ahead in (("note", ("a",)), ("note", ("a",)), ("note", ("b", "c")), ("note", ()), ("leave", ())):
        with Child(f"{HERE}:called_ahead", ahead=(f"{HERE}:{name}", *ahead)) as child:
            child.send({})
            noted.append(child.receive(Deadline(60))["returned"])
    assert noted == [[["a"]], [["a"]], *[[["a"], ["b", "c"]]] * 3]


@pytest.mark.usefixtures("no_server_before")
def test_a_server_that_is_made_ready_has_what_the_first_child_needs() -> None:
    forked.get_ready(f"{HERE}:called_ahead", (f"{HERE}:note", "early"))
    begun = forked._places[""].server
    assert begun is not None
    with Child(f"{HERE}:called_ahead") as child:
        child.send({})
        assert child.receive(Deadline(60))["returned"] == [["early"]]
    assert forked._places[""].server is begun


@pytest.mark.usefixtures("no_server_before")
def test_what_is_loaded_for_a_name_is_in_no_other_child_and_its_server_ends_when_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forked, "_IDLE", 0.5)
    noted = []
    for name in ("large", "", "large"):
        with Child(f"{HERE}:called_ahead", ahead=(f"{HERE}:note", name), server=name) as child:
            child.send({})
            noted.append(child.receive(Deadline(60))["returned"])
    assert noted == [[["large"]], [[""]], [["large"]]]
    named, shared = forked._places["large"].server, forked._places[""].server
    assert named is not None
    until = time.monotonic() + 30
    while not named.has_ended() and time.monotonic() < until:
        time.sleep(0.02)
    assert named.has_ended()
    assert shared is not None
    assert not shared.has_ended()
    with Child(f"{HERE}:called_ahead", server="large") as child:
        child.send({})
        assert child.receive(Deadline(60))["returned"] == [], "a new server"
    forked._places.pop("large").close()


@pytest.mark.usefixtures("no_server_before")
@pytest.mark.parametrize("stays", [False, True])
def test_a_server_whose_modules_were_edited_forks_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    """The next child has a server that loads them anew; one that is at work goes on."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "edited_module.py").write_text("WORD = 'old'\n")
    name = "edited"
    if stays:
        forked.keep(name, tmp_path / "log")
    ahead = (f"{HERE}:note_word", "edited_module")

    def said() -> list[str]:
        with Child(f"{HERE}:called_ahead", ahead=ahead, server=name) as child:
            child.send({})
            return child.receive(Deadline(60))["returned"]

    with Child(f"{HERE}:echo", ahead=ahead, server=name) as at_work:
        at_work.wait(0)
        assert said() == [["old"]]
        (tmp_path / "edited_module.py").write_text("WORD = 'new one'\n")
        assert said() == [["new one"]]
        assert said() == [["new one"]]
        at_work.send({"a": 1})
        assert at_work.receive(Deadline(60)) == {"a": 1}
    forked.end(name)


@pytest.mark.usefixtures("no_server_before")
def test_a_killed_server_takes_its_children_along_and_the_next_child_has_a_new_one(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with Child(f"{HERE}:hang") as child:
        child.send({"mark": str(mark)})
        while not mark.exists():
            child.wait(0.05)
        os.kill(server(), signal.SIGKILL)
        with pytest.raises(ChildEnded) as ended:
            child.receive(Deadline(20))
        assert (ended.value.ending.cause, ended.value.ending.code) == (Cause.SIGNAL, signal.SIGKILL)
    assert kind() in ("fork", "interpreter")  # the first notices, the next has its server
    assert kind() == "fork"


@pytest.mark.usefixtures("no_server_before")
def test_an_error_of_one_start_ends_no_other_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Child(f"{HERE}:echo") as child:
        ours = server()
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert call(f"{HERE}:kind", {}, seconds=60).result != "fork", "a fork needs the folder"
        monkeypatch.chdir(tmp_path)
        assert (kind(), server()) == ("fork", ours)
        child.send({"a": 1})
        assert child.receive(Deadline(60)) == {"a": 1}


def test_many_threads_may_start_children_at_once() -> None:
    def add(number: int) -> int:
        return call(f"{HERE}:add", {"numbers": [number, 1]}, seconds=60).result

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(add, range(40))) == [number + 1 for number in range(40)]
    ours, until = server(), time.monotonic() + 10
    while (left := children_of(ours)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not left


def test_a_fork_of_this_process_has_a_server_of_its_own() -> None:
    assert kind() == "fork"
    ours = server()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages with threads, which the copy does not use
        copy = os.fork()
    if copy == 0:
        code = 1
        try:
            code = 0 if kind() == "fork" and server() != ours else 2
            forked._places[""].close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 0
    assert (kind(), server()) == ("fork", ours)


@pytest.mark.slow
def test_a_server_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    script = f"""
import os, sys
from opscope.base.children.call import call
from opscope.base.tests.test_forked import server
assert call("{HERE}:kind", {{}}).result == "fork"
print(server(), flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), 9)
"""
    for how in ("returns", "killed"):
        ran = captured(
            [sys.executable, "-W", "error", "-c", script, how], cwd=tmp_path, env=os.environ | {}, timeout=60
        )
        assert (ran.returncode, ran.stderr) == (-9 if how == "killed" else 0, "")
        assert are_gone(int(ran.stdout)), how
