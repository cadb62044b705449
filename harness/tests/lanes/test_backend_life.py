"""The life of a backend: loaded once a run, opened in each lane, closed; what goes wrong there is no op's verdict."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pytest

from opscope.base.children import forked, process_tree
from opscope.base.tests.each import each
from opscope.base.tests.processes import are_gone
from opscope.harness.backends import declarations, life, registry
from opscope.harness.backends.base import Backend, BackendError, Job
from opscope.harness.lanes import scratch, stated_facts
from opscope.harness.lanes.lane import Lane, LaneConfig
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.ops import BACKENDS, add_row
from opscope.harness.verdict.target import Target

LIBRARY = str(BACKENDS / "library.py")

forks = pytest.mark.skipif(
    not forked._can_fork("opscope.harness", dict(os.environ)), reason="children are no forks here (coverage, system)"
)


def config(folder: Path, backend: str = LIBRARY, **changes: Any) -> LaneConfig:
    return LaneConfig(RunContext("r1", str(folder / "run"), backend), {"toy": str(folder)}, **changes)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Where the library notes what is called; in a run of its own, with a TMPDIR of its own."""
    path, temporary = tmp_path / "notes", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("LIBRARY_NOTES", str(path))
    monkeypatch.setenv("TMPDIR", str(temporary))
    scratch.close()
    yield path
    scratch.close()
    # But for what `tempfile` writes to try a folder: a process may be ended in the middle of that.
    trial = re.compile(r"[a-z0-9_]{8}")
    left = [
        path
        for path in temporary.iterdir()
        if path.is_dir() or not trial.fullmatch(path.name) or path.read_bytes() not in (b"", b"blat")
    ]
    assert left == [], "nothing is left in TMPDIR"


def noted(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


@forks
def test_a_forkable_backend_is_loaded_once_for_all_lanes_crashes_and_reruns(tmp_path: Path, notes: Path) -> None:
    log = tmp_path / "log.txt"
    with Lane(config(tmp_path, log=log)) as first, Lane(config(tmp_path)) as second:
        first.start()
        assert first.ready().versions == {"the-library": "4.5"}
        assert first.run(add_row(tmp_path, "fine")).status is Status.PASSED
        crash = first.run(add_row(tmp_path, "crash", b"crash"))
        assert (crash.status, crash.crash_kind) == (Status.CRASHED, "signal SIGABRT")
        assert crash.error_message == "LLVM ERROR: no such op today"
        first.ready()
        assert sum(step == "load" for step, *_ in noted(notes)) == 1, "another fork, not another load"
        first.fresh()
        assert first.run(add_row(tmp_path, "fine")).status is Status.PASSED
        assert second.run(add_row(tmp_path, "fine")).status is Status.PASSED
        with Lane(config(tmp_path, "null")) as other:
            other.ready()
            assert parent_of(other) != parent_of(second), "no other child is a fork of what has loaded it"
    steps = Counter(step for step, *_ in noted(notes))
    assert steps == {"load": 1, "open": 4, "fingerprint": 4, "warm_up": 4, "close": 3}, "the crashed one is not closed"
    opened = [line for line in noted(notes) if line[0] == "open"]
    assert len({temporary for _, _, temporary, _ in opened}) == 4, "each lane has a TMPDIR of its own"
    assert all(Path(folder).parent == Path(temporary).parent for _, _, temporary, folder in opened), "and a folder"
    assert not any(Path(temporary).exists() for _, _, temporary, _ in opened)
    assert not Path("generated").exists()
    assert log.read_text().count("unpacking") == 1, "what the load wrote is in the log of a lane"


def parent_of(lane: Lane) -> str:
    """The number of the process whose child the lane's process is."""
    assert lane._child is not None
    return Path(f"/proc/{lane._child.pid}/stat").read_text().rsplit(")", 1)[1].split()[1]


def some_slow(*quick: str, slow: tuple[str, ...]) -> pytest.MarkDecorator:
    """Steps, of which some are tried by `make slow` alone."""
    return pytest.mark.parametrize("step", [*quick, *(pytest.param(step, marks=pytest.mark.slow) for step in slow)])


STEPS = ("load", "open", "target", "fingerprint", "warm_up")


@pytest.mark.parametrize("step", STEPS)
def test_an_error_in_a_step_names_it(tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(threading.Thread, "start", lambda self: None)  # that of the library, in this process
    raised = rf"expected {step}\(\) without an error, got RuntimeError: no luck in {step}; try .*doc"
    for what, expected in (
        ("error", f"^--backend .*: {raised}"),
        ("backend error", r"^--backend .*: expected a chip, got no chip; try another machine$"),
    ):
        (folder := tmp_path / what).mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv(f"LIBRARY_{step.upper()}", what)
        with pytest.raises(InputError, match=expected):
            life.open_(LIBRARY, life.load(LIBRARY), ResultOptions())


# quick: the test above has each error; [open] of the next and one that fails in a stage bring theirs out of a lane
@some_slow(slow=STEPS)
def test_an_error_in_a_step_is_no_verdict(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setenv(f"LIBRARY_{step.upper()}", "error")
    expected = rf"^--backend .*: expected {step}\(\) without an error, got RuntimeError: no luck in {step}; try .*doc"
    with Lane(config(tmp_path)) as lane, pytest.raises(InputError, match=expected):
        lane.run(add_row(tmp_path, "fine"))
    scratch.close()
    monkeypatch.setenv(f"LIBRARY_{step.upper()}", "backend error")
    expected = r"^--backend .*: expected a chip, got no chip; try another machine$"
    with Lane(config(tmp_path)) as lane, pytest.raises(InputError, match=expected):
        lane.run(add_row(tmp_path, "fine"))


@some_slow("open", slow=("load",))
def test_a_process_that_dies_in_a_step_ends_the_run_with_its_last_words(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setenv(f"LIBRARY_{step.upper()}", "exit")
    with Lane(config(tmp_path)) as lane, pytest.raises(InputError, match=f"exit code 9: TT_FATAL: {step} without"):
        lane.ready()


OWN_CODE = """
from opscope import {imported}Stage, Target

class Mine{bases}:
    name = "mine"
    stages = (Stage("lower"),)

    def target(self, options):
        return Target(card_type="host", float_format=None, math_fidelity="exact")

    def fingerprint(self, options):
        return "mine"

    def available(self):
        return None

    def climb(self, stage, job):
        {body}
"""


@pytest.mark.crossed
@pytest.mark.parametrize("inherits", [True, False], ids=["of Backend", "of nothing"])
@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("job.modul.lower()", "AttributeError at mine.py:17: 'Job' object has no attribute 'modul'"),
        ("lowre(job.module)", "NameError at mine.py:17: name 'lowre' is not defined"),
        ("import my_compiler_of_yesterday", "ModuleNotFoundError at mine.py:17: No module named"),
    ],
    ids=["attribute", "name", "import"],
)
def test_a_fault_of_the_backends_own_code_is_no_verdict(tmp_path: Path, body: str, fault: str, inherits: bool) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        OWN_CODE.format(
            body=body, bases="(Backend)" if inherits else "", imported="Backend, " if inherits else ""
        ).lstrip()
    )
    expected = f"--backend .*mine.py: expected a backend without faults of its own, got {re.escape(fault)}"
    with Lane(config(tmp_path, str(mine))) as lane, pytest.raises(InputError, match=expected):
        lane.run(add_row(tmp_path, "fine"))


@pytest.mark.parametrize(
    "body", ["import json; json.loads(7 .real)", "raise TypeError('no such type')", "Stage('lower').value.lower(1)"]
)
def test_what_a_compiler_raises_is_the_verdict_of_the_op(tmp_path: Path, body: str) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(OWN_CODE.format(body=body, bases="(Backend)", imported="Backend, ").lstrip())
    with Lane(config(tmp_path, str(mine))) as lane:
        assert lane.run(add_row(tmp_path, "fine")).status is Status.COMPILE_FAILED


def test_a_backend_that_fails_in_a_stage_ends_the_run_and_closing_has_a_limit(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opscope.harness.lanes.lane._CLOSING", 0.3)
    monkeypatch.setenv("LIBRARY_CLOSE", "hang")
    with Lane(config(tmp_path)) as lane:
        lane.ready()
        assert lane._child is not None
        pid, begun = lane._child.pid, time.monotonic()
    assert 0.3 <= time.monotonic() - begun < 30
    assert are_gone(pid)
    monkeypatch.delenv("LIBRARY_CLOSE")
    with Lane(config(tmp_path)) as lane:
        assert lane.run(add_row(tmp_path, "fine")).status is Status.PASSED
        with pytest.raises(InputError, match="got the chip is gone"):
            lane.run(add_row(tmp_path, "gone", b"gone"))


def test_a_backend_that_is_not_forkable_is_loaded_in_each_lane(tmp_path: Path, notes: Path) -> None:
    text = Path(LIBRARY).read_text(encoding="utf-8")
    mine = tmp_path / "mine.py"
    mine.write_text(text.replace('"library"', '"mine"').replace("forkable = True", "forkable = False"))
    with Lane(config(tmp_path, str(mine))) as lane:
        lane.ready()
        lane.fresh()
        lane.ready()
    steps = [step for step, *_ in noted(notes)]
    assert steps == ["load", "open", "fingerprint", "warm_up", "close"] * 2
    assert all("lane-" in temporary for _, _, temporary, _ in noted(notes))


def test_a_class_of_an_earlier_version_takes_no_options(tmp_path: Path) -> None:
    class Old:
        def fingerprint(self) -> str:
            return "old"

        def warm_up(self) -> None:
            return

    class New(Old):
        def fingerprint(self, options: ResultOptions) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
            return f"new {options.arch}"

    options = ResultOptions(arch="p150")
    assert life.with_options(Old().fingerprint, options) == "old"
    assert life.with_options(New().fingerprint, options) == "new p150"


def test_what_computes_nothing_is_not_taken_for_a_result(tmp_path: Path) -> None:
    backend = tmp_path / "zeros.py"
    text = (BACKENDS / "faulty.py").read_text(encoding="utf-8")
    backend.write_text(text.replace('    name = "faulty"\n', '    name = "zeros"\n    compile_only = True\n'))
    with Lane(config(tmp_path, str(backend))) as lane:
        test = lane.run(add_row(tmp_path, "fine", b"run:sigsegv"))
    assert (test.status, test.ran_on, test.stage_reached) == (Status.PASSED, "none", Stage.COMPILE)
    assert test.results == ()


def test_declarations_are_read_from_classes_that_it_inherits_from(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from opscope.harness.backends.reference import Reference as Ours\n"
        "class Base(Ours):\n    forkable = False\n    scratch_bytes: int = 400 << 20\n    def load(self): ...\n"
        "class Mine(Base):\n    name = 'mine'\n"
    )
    declared = declarations.read(path, "mine")
    assert declared.constants["forkable"] is False
    assert declared.constants["lasting"] is True, "of a class of this project"
    assert declared.constants["scratch_bytes"] == 400 << 20
    assert {"load", "take_apart"} <= declared.methods
    assert declarations.read(path, "other") == declarations.NOTHING
    assert not scratch.needed("reference")
    assert not scratch.loads_once("reference"), "it is in the process that all children are forks of"
    assert scratch.loads_once(LIBRARY)
    assert registry.absolute("xla") == "xla"


def test_a_tmpdir_without_room_is_refused(tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = tmp_path / "library.py"
    huge.write_text(Path(LIBRARY).read_text(encoding="utf-8").replace("1 << 20", "1 << 60"))
    with Lane(config(tmp_path, str(huge))) as lane, pytest.raises(InputError, match=r"^TMPDIR: expected 1\d* MiB free"):
        lane.start()
    scratch.close()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    with Lane(config(tmp_path)) as lane, pytest.raises(InputError, match=r"^TMPDIR: .*absent, which is no folder; try"):
        lane.start()
    assert noted(notes) == []


@pytest.mark.slow
def test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next(tmp_path: Path, notes: Path) -> None:
    script = f"""
import os, signal, sys
from pathlib import Path
from opscope.harness.backends.base import Backend, BackendError, Job
from opscope.harness.lanes import scratch, stated_facts
from opscope.harness.lanes.lane import Lane
from opscope.harness.tests.lanes.test_backend_life import config
lane = Lane(config(Path({str(tmp_path)!r})))
lane.ready()
print(scratch.of_process().folder, lane._child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder, lane = done.stdout.split()
    assert are_gone(int(lane)), "lane and what it is a fork of end with the run"
    assert Path(folder).is_dir()
    mine = Path(scratch.of_process().folder)
    assert not Path(folder).exists()
    assert mine.is_dir()
    assert process_tree.children_of(os.getpid()) is not None


def run_of(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A run of a small model."""
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--model", "mnist_mlp", "--op-by-op", *words]
    env = {**os.environ, "LIBRARY_NOTES": str(folder / "notes"), "OPSCOPE_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(command, cwd=folder, env={**env, **environment}, capture_output=True, text=True, check=False)


@pytest.mark.slow
@forks
def test_two_workers_reruns_and_crashes_need_one_load(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    text = Path(LIBRARY).read_text(encoding="utf-8").replace(' or b"tanh" in', ' or b"maximum" in')
    (tmp_path / "library.py").write_text(text)
    words = ("--backend", "library.py", "--reruns", "1", "-n", "2")
    done = run_of(tmp_path, *words, TMPDIR=str(tmp_path / "tmp"))
    assert "3 compile_failed" in done.stdout, done.stdout
    assert "LLVM ERROR: no such op today" in done.stdout
    steps = Counter(step for step, *_ in noted(tmp_path / "notes"))
    assert steps["load"] == 1
    assert steps["open"] >= 7
    assert list((tmp_path / "tmp").glob(f"{scratch.PREFIX}*")) == []
    assert not (tmp_path / "generated").exists()
    (run,) = (tmp_path / ".opscope" / "runs").iterdir()
    record = json.loads((run / "run.json").read_text())
    assert record["origin"]["options"]["versions"] == {"library": {"the-library": "4.5"}}
    (script,) = list(run.glob("artifacts/*/repro-library/without_opscope.sh"))[:1]
    assert script.read_text().endswith("\nthe-compiler module.mlir\n")
    (tmp_path / "notes").unlink()
    again = run_of(tmp_path, *words, TMPDIR=str(tmp_path / "tmp"))  # all exports are kept, and most verdicts
    assert again.returncode == 1, again.stdout
    assert Counter(step for step, *_ in noted(tmp_path / "notes"))["load"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("step", ["load", "open", "warm_up"])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_whose_backend_does_not_work_ends_in_one_line(tmp_path: Path, step: str, workers: str) -> None:
    done = run_of(tmp_path, "--backend", LIBRARY, "-n", workers, **{f"LIBRARY_{step.upper()}": "error"})
    assert done.returncode == 2, done.stdout
    assert f"expected {step}() without an error, got RuntimeError: no luck in {step}" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert list((tmp_path / "cache").glob("results/*/*.json")) == []
    assert list((tmp_path / ".opscope" / "runs").glob("*/journal*")) == []


@pytest.mark.slow
def test_the_example_of_a_pjrt_plugin_runs(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("xla_plugins.xla_cpu_pjrt") if importlib.util.find_spec("xla_plugins") else None
    plugin = os.environ.get("PJRT_PLUGIN") or (spec and spec.origin and Path(spec.origin).with_name("xla_cpu_pjrt.so"))
    if not plugin:
        pytest.skip("xla-cpu-pjrt is not installed, and PJRT_PLUGIN is not set")
    example = (Path(__file__).parents[3] / "docs" / "examples" / "pjrt_plugin.py").read_text(encoding="utf-8")
    assert len(example.splitlines()) <= 60
    (tmp_path / "pjrt_plugin.py").write_text(example, encoding="utf-8")
    done = run_of(tmp_path, "--backend", "pjrt_plugin.py", PJRT_PLUGIN=str(plugin))
    assert "24 unique ops = 24 success" in done.stdout, done.stdout + done.stderr
    (run,) = (tmp_path / ".opscope" / "runs").iterdir()
    versions = json.loads((run / "run.json").read_text())["origin"]["options"]["versions"]["pjrt_plugin"]
    assert list(versions) == [Path(plugin).name]


@pytest.mark.slow
def test_twenty_failures_with_one_text_are_reported_first_and_not_kept(tmp_path: Path) -> None:
    done = run_of(tmp_path, "--backend", LIBRARY, LIBRARY_CLIMB="1")
    assert done.returncode == 1
    page = done.stdout.partition("= op by op =")[2].lstrip("=\n")
    assert page.startswith("The first 20 ops all failed on library with one text, and none passed"), page[:300]
    assert list((tmp_path / "cache").glob("results/*/*.json")) == []
    fine = run_of(tmp_path, "--backend", LIBRARY)
    assert "21 passed" in fine.stdout
    assert "The first 20 ops" not in fine.stdout
    assert len(list((tmp_path / "cache").glob("results/*/*.json"))) == 24


@pytest.mark.parametrize(("member", "value"), [("fingerprint", 7), ("target", None)])
def test_what_a_backend_says_of_itself_has_its_type(member: str, value: object) -> None:
    """A number in place of a text ended in a traceback of the program's own, far from the backend."""
    members = {
        "target": lambda self, options: Target("host", None, "exact"),
        "fingerprint": lambda self, options: "own-1",
        "available": lambda self: None,
        "climb": lambda self, stage, job: None,
    }
    own = type("Own", (Backend,), {"name": "own", **members, member: lambda self, options: value})()
    with pytest.raises(InputError, match=rf"--backend own: expected {member}\(\) without an error, got TypeError"):
        life.open_("own", own, ResultOptions())


@each(
    ("field", "value"),
    [
        ("ran_on", "moon"),
        ("outputs", ["a"]),
        ("outputs", numpy.zeros(3)),
        ("outputs", [None]),
        ("outputs", None),
        ("cycles", -5),
        ("device_ns", float("nan")),
        ("run_ns", float("inf")),
        ("l1_peak_bytes", "1"),
    ],
)
def test_what_a_backend_states_of_an_op_can_be(field: str, value: object) -> None:
    """A place that nobody knows would be a place of its own in every rate."""
    job = Job("op", b"", [], ResultOptions(), ())
    job.ran_on, job.cycles, job.utilisation, job.limiter = "simulator", 0, 0.5, "math"
    job.outputs = [numpy.zeros((2, 3))]
    stated_facts.check(job)
    setattr(job, field, value)
    with pytest.raises(BackendError, match=f"job.{field}"):
        stated_facts.check(job)
