"""Runs that were cut short go on and end as if nothing had happened; runs with a budget say what they left out."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from opscope.harness.record import store
from opscope.harness.record.records import VOLATILE
from opscope.harness.tests.acceptance.conftest import MODEL, Place
from opscope.harness.tests.acceptance.test_plugin import REFUSES
from opscope.harness.tests.own_backend import own_backend

pytestmark = pytest.mark.slow

STEADY = own_backend("steady", f"time.sleep(0.03)\n{textwrap.dedent(REFUSES)}", top="import time")
"""Takes a while for each op, and refuses matrix products."""


@pytest.fixture
def steady(place: Place) -> Place:
    (place.folder / "steady.py").write_text(STEADY)
    return place


def words(*more: str) -> list[str]:
    return ["--model", MODEL, "--op-by-op", "--backend", "steady.py", "--no-report", "--no-cache", *more]


def records(run: Path) -> dict[str, dict[str, Any]]:
    """What counts of a run: the last attempt at each op, without what may differ between equal runs."""
    return {test.op_id: test.model_dump(exclude=set(VOLATILE)) for test in store.load_run(run).tests}


def cut(place: Place, run: Path, lines: int, number: int, *more: str, after: float = 0.0) -> str:
    """Starts a run and sends a signal to its whole process group once the journal holds some lines."""
    child = place.start("pytest", *words("--run-dir", str(run), *more))
    deadline = time.monotonic() + 60
    while sum(path.read_text().count("\n") for path in run.glob("journal/*.jsonl")) < lines:
        assert time.monotonic() < deadline
        assert child.poll() is None
        time.sleep(0.005)
    time.sleep(after)
    os.killpg(child.pid, number)
    return child.communicate(timeout=60)[0]


def resume(place: Place, run: Path, *more: str) -> Any:
    return place.run("pytest", "--op-by-op", "--resume", str(run), "--no-report", "--no-cache", *more)


def test_a_killed_run_goes_on_and_ends_as_an_undisturbed_one(steady: Place) -> None:
    whole, run = steady.folder / "whole", steady.folder / "cut"
    undisturbed = steady.run("pytest", *words("--run-dir", str(whole)))
    cut(steady, run, 5, signal.SIGKILL)
    # A writer that was killed in the middle of a line.
    (segment,) = (run / "journal").glob("*.jsonl")
    with segment.open("a") as file:
        file.write('{"op_id": "torn')
    before = records(run)
    assert 5 <= len(before) < 24
    resumed = resume(steady, run)
    assert resumed.code == undisturbed.code == 1, "an op that was refused before the cut still counts"
    assert records(run) == records(whole)
    tests = [json.loads(line) for line in segment.read_text().splitlines()]
    assert len(tests) == 24, "no op ran twice"
    assert [test["op_id"] for test in tests[: len(before)]] == list(before)
    assert store.read_run(run).outcome == "complete"
    ends = [done.lines[-1].split(" in ")[0].strip("= ") for done in (resumed, undisturbed)]
    assert ends[0] == ends[1]
    assert resume(steady, run).code == 1, "a run that is complete is only told again"
    assert len(segment.read_text().splitlines()) == 24


def test_an_interrupted_selection_goes_on_in_two_workers(steady: Place) -> None:
    run, whole = steady.folder / "cut", steady.folder / "whole"
    chosen = ("-k", "data_movement or matmul")
    out = cut(steady, run, 3, signal.SIGINT, *chosen)
    assert "the run was interrupted" in out
    statuses = Counter(test["status"] for test in records(run).values())
    assert statuses["not_run"] > 3
    assert statuses["skipped"] > 3
    assert resume(steady, run, "-n", "2").code == 1
    steady.run("pytest", *words("--run-dir", str(whole), *chosen))
    assert records(run) == records(whole)


def test_a_run_that_cannot_be_resumed_is_refused_in_one_line(steady: Place) -> None:
    run = steady.folder / "cut"
    cut(steady, run, 1, signal.SIGKILL)
    for more, expected in (
        (("--backend", "null"), "--backend: expected the run's own value with --resume, got 'null'"),
        (
            ("--model", MODEL),
            "--resume: expected --resume alone, since the run folder has all other options, got --model as well",
        ),
        (("--seed", "3"), "--seed: expected the run's own value"),
    ):
        done = resume(steady, run, *more)
        assert (done.code, done.out) == (2, "")
        assert expected in done.err
        assert len(done.err.splitlines()) == 1
    done = steady.run("pytest", "--op-by-op", "--resume", "nowhere")
    assert (done.code, done.err.partition(": expected ")[2][:12]) == (2, "a run folder")
    record = store.read_run(run)
    options = {**record.origin.options, "fingerprint": "another"}
    store.write_run(run, record.model_copy(update={"origin": record.origin.model_copy(update={"options": options})}))
    done = resume(steady, run)
    assert done.code == 2
    assert (
        "--resume: expected the backend that the run started with (another), got steady-1; try a new run"
        in done.out + done.err
    )


def test_a_run_that_still_runs_is_left_alone(steady: Place) -> None:
    run = steady.folder / "live"
    child = steady.start("pytest", *words("--run-dir", str(run)), output=subprocess.DEVNULL)
    while not list(run.glob("journal/*")):
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGSTOP)  # it would end before the other had begun
    done = resume(steady, run)
    child.send_signal(signal.SIGCONT)
    assert child.wait() == 1
    assert done.code == 2
    assert "--resume: expected a run that has ended" in done.err


@pytest.mark.parametrize("workflow", ["split", "full", "compile-split"])
def test_a_budget_in_which_no_model_is_prepared_is_no_success(place: Place, workflow: str) -> None:
    options = ("--workflow", workflow, "--budget", "0.05s", "--no-report", "--ops", "no.such.op")
    place.environment["OPSCOPE_CACHE_DIR"] = str(place.folder / "empty")
    done = place.run("pytest", "--model", "mnist_mlp", "--model", "bert_base", "--op-by-op", *options)
    assert done.code == 5, done.out + done.err
    assert "2 not_run" in done.out
    assert "expected the name, family or id of an op of the run" not in done.err, "nobody knows that yet"


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_budget_leaves_rows_that_say_so(steady: Place, workers: str) -> None:
    run, whole = steady.folder / "run", steady.folder / "whole"
    first = steady.run("pytest", *words("--run-dir", str(steady.folder / ".opscope" / "runs" / "20200101-first")))
    assert first.code == 1
    done = steady.run("pytest", *words("--run-dir", str(run), "--budget", "0.001s", "-n", workers))
    assert done.code == 5, "nothing failed, but nothing ran either"
    tests = records(run).values()
    assert {(t["status"], t["error_message"]) for t in tests} == {("not_run", "budget")}
    assert len(tests) == 24
    assert store.read_run(run).outcome == "out_of_budget"
    assert "the budget is spent" in done.out
    assert resume(steady, run, "-n", workers, "--budget", "1h", "-v").code == 1
    steady.run("pytest", *words("--run-dir", str(whole)))
    assert records(run) == records(whole)
    assert store.read_run(run).outcome == "complete"
    ran = [test for test in steady.records(run) if test["attempt"] == 2]
    ran.sort(key=lambda test: test["test_start_ts"])
    failed = [place for place, test in enumerate(ran) if test["status"] == "compile_failed"]
    assert len(ran) == 24
    # What failed in the last known run comes first; two lanes end ops in another order.
    assert failed[-1] < len(failed) + (0 if workers == "0" else 2)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_any_moment_of_being_killed(steady: Place, workers: str) -> None:
    whole = steady.folder / "whole"
    steady.run("pytest", *words("--run-dir", str(whole)))
    moments = random.Random(int(workers))
    for turn in range(10):
        run = steady.folder / f"cut{turn}"
        lines = moments.randint(1, 20)
        cut(steady, run, lines, signal.SIGKILL, "-n", workers, after=moments.random() * 0.1)
        if turn % 3 == 0 and len(records(run)) < 22:  # and killed once more while it goes on
            words_again = ("--op-by-op", "--resume", str(run), "--no-report", "--no-cache", "-n", workers)
            child = steady.start("pytest", *words_again, output=subprocess.DEVNULL)
            time.sleep(0.5 + moments.random())
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        assert resume(steady, run, "-n", workers).code == 1
        assert records(run) == records(whole), turn
        assert store.read_run(run).outcome == "complete"
