"""Whole nights by the command, with real sweeps: a fault, a kill, shards on two machines, a database that is away."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opscope.harness.record.store import load_run
from opscope.reports.database.ask import ask

pytestmark = pytest.mark.slow

CONFIG = """
models: [mnist_mlp]
backends: [{backend}]
database: sqlite:///{database}
options: {{no_cache: true, reruns: 0}}
shards: {shards}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a night's configuration and a backend that fails what the file `lame` names."""
    shutil.copy(Path(__file__).parent / "lame.py", tmp_path / "lame.py")
    (tmp_path / "lame").write_text("")
    configure(tmp_path)
    return tmp_path


def configure(place: Path, shards: int = 1) -> None:
    content = CONFIG.format(backend=place / "lame.py", database=place / "results.sqlite", shards=shards)
    (place / "nightly.yaml").write_text(content)


def start(place: Path, *words: str, verb: str = "nightly", file_blocks: int = 0) -> subprocess.Popen[str]:
    """`file_blocks`: the most KiB that a file may have; 0: no limit."""
    environment = os.environ | {"LAME": str(place / "lame"), "GITHUB_STEP_SUMMARY": str(place / "page.md")}
    command = [sys.executable, "-m", "opscope.harness.cli.main", verb, *words]
    if file_blocks:
        command = ["bash", "-c", f'ulimit -f {file_blocks}; exec "$@"', "bash", *command]
    return subprocess.Popen(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def nightly(place: Path, *words: str, verb: str = "nightly", file_blocks: int = 0) -> tuple[int, str]:
    process = start(place, *(words if verb == "gate" else ("nightly.yaml", *words)), verb=verb, file_blocks=file_blocks)
    output = process.communicate(timeout=300)[0]
    return process.returncode, output


def rows(place: Path, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in ask(f"sqlite:///{place}/results.sqlite", query).rows]


def test_a_fault_of_a_compiler_fails_the_next_night_once(place: Path) -> None:
    assert nightly(place)[0] == 0
    (place / "lame").write_text("tanh maximum")
    code, output = nightly(place)
    assert code == 1, output
    assert "worse than in the previous night" in output
    summary = (place / "page.md").read_text()
    assert "## NEW" in summary
    assert "no lowering for maximum" in summary
    assert rows(place, "SELECT DISTINCT label FROM night_diff WHERE label <> 'SAME'") == [("NEW",)]
    code, output = nightly(place)
    assert (code, " still failing, " in output) == (0, True)
    assert [path.name for path in place.glob(".opscope/nights/*/report.html")] == ["report.html"] * 3


def test_a_repro_line_changes_nothing_that_a_night_has_said(place: Path) -> None:
    """Pasted once the compiler is mended, it is a run of its own, which names the run whose op it is the answer for."""
    counted = "SELECT night_id, status, COUNT(*), SUM(attempt) FROM night_ops WHERE kind = 'night' GROUP BY 1, 2"
    (place / "lame").write_text("maximum")
    assert nightly(place)[0] == 0
    said = rows(place, counted), rows(place, "SELECT night_id, sentence FROM night_sentences")
    ((line, op_id, run_id),) = rows(place, "SELECT MIN(repro), MIN(op_id), MIN(run_id) FROM night_failures")
    (place / "lame").write_text("")
    environment = os.environ | {"LAME": str(place / "lame")}
    publish = ["--publish", f"sqlite:///{place}/results.sqlite"]
    words = [sys.executable, "-m", *shlex.split(str(line)), *publish]
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, f"ops of run {run_id}, run again" in done.stdout) == (0, True), done.stdout + done.stderr
    assert rows(place, counted) == said[0]
    assert said[1] == [row for row in rows(place, "SELECT night_id, sentence FROM night_sentences") if row in said[1]]
    (answer,) = place.glob(".opscope/runs/*-again+*")
    tests = {test.op_id: test.status for test in load_run(answer).tests if test.status != "skipped"}
    assert tests == {op_id: "success"}
    (night_run,) = [run for run in place.glob(".opscope/runs/*") if run != answer]
    assert {test.status for test in load_run(night_run).tests} == {"success", "compile_failed"}


def test_a_night_that_is_killed_goes_on(place: Path) -> None:
    (place / "lame").write_text("slow")
    process = start(place, "nightly.yaml")
    journal = None
    limit = time.monotonic() + 120
    while journal is None and time.monotonic() < limit:
        journal = next((path for path in place.glob(".opscope/runs/*/journal/*.jsonl") if path.stat().st_size), None)
        time.sleep(0.02)
    assert journal is not None
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    records = journal.read_text().count("\n")
    (place / "lame").write_text("")
    code, output = nightly(place)
    assert (code, len(list(place.glob(".opscope/nights/*")))) == (0, 1), output
    assert journal.read_text().count("\n") >= records > 0
    ((runs, complete),) = rows(place, "SELECT COUNT(*), SUM(outcome = 'complete') FROM runs")
    assert (runs, complete) == (1, 1)
    assert rows(place, "SELECT COUNT(*) FROM op_tests WHERE attempt > 1") == [(0,)]
    assert rows(place, "SELECT night_status FROM night_status") == [("complete",)]


def test_an_interrupted_night_says_how_it_goes_on(place: Path) -> None:
    (place / "lame").write_text("slow")
    process = start(place, "nightly.yaml")
    while not list(place.glob(".opscope/runs/*/journal/*.jsonl")):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=120)[0]
    assert (process.returncode, "run the same command again to continue this night" in output) == (130, True)
    assert not (place / "results.sqlite").exists()


def test_shards_of_two_machines_make_one_night(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    configure(place, shards=2)
    at = ("--started", "2026-11-20T02:00:00+00:00")
    machines = []
    for number in (1, 2):
        machine = tmp_path_factory.mktemp("machine")
        for name in ("lame.py", "lame", "nightly.yaml"):
            shutil.copy(place / name, machine)
        machines.append(machine)
        code, output = nightly(machine, "--shard", f"{number}/2", *at)
        assert code == 0, output
        assert not (machine / "results.sqlite").exists()
    artifacts = place / "artifacts"
    shutil.copytree(machines[0] / ".opscope" / "runs", artifacts / "shard-1")
    code, output = nightly(place, "--join", "artifacts", *at)
    assert (code, "missing shard 2" in output) == (0, True), output
    assert "**partial**" in (place / "page.md").read_text()
    shutil.copytree(machines[1] / ".opscope" / "runs", artifacts / "shard-2")
    code, output = nightly(place, "--join", "artifacts", *at)
    assert (code, "partial" in output) == (0, False), output
    assert rows(place, "SELECT night_id, night_status FROM night_status") == [("nightly-20261120-020000", "complete")]
    assert len(list(place.glob(".opscope/nights/*/lame-n150*/report.html"))) == 2
    code, output = nightly(place, "--join", "artifacts", "--started", "2026-11-21T02:00:00+00:00")
    assert (code, "no data" in output) == (1, True)


def test_bad_input_is_one_line(place: Path) -> None:
    for words, problem in (
        (("--shard", "2/3"), "--shard: expected a shard of 1, as the configuration says, got 2/3; try 1/1"),
        (("--started", "tonight"), "--started: expected a time with its zone, got `tonight`"),
        (("--join", "nowhere"), "--join: expected the runs of one night, got none"),
        (("--database", "mysql://h/d"), "--database: expected a SQLite or PostgreSQL URL, got `mysql`"),
    ):
        code, output = nightly(place, *words)
        assert (code, output.count("\n"), problem in output) == (2, 1, True), output


def test_a_gate_runs_what_a_change_invalidates_and_fails_on_news_alone(place: Path) -> None:
    content = (place / "nightly.yaml").read_text()
    (place / "nightly.yaml").write_text(content.replace("no_cache: true, ", ""))
    (place / "lame").write_text("exponential")
    assert nightly(place)[0] == 0
    gate = ("--config", "nightly.yaml", "--baseline", "nightly")
    code, output = nightly(place, *gate, verb="gate")
    assert (code, "0 ops ran, 0 not reached" in output, "nothing worse" in output) == (0, True, True), output
    (place / "lame").write_text("exponential maximum")
    code, output = nightly(place, *gate, "--budget", "5m", verb="gate")
    assert (code, " 0 verdicts still hold" in output) == (1, True), output
    assert "## NEW" in output
    assert "no lowering for maximum" in output
    assert "no lowering for exponential" not in output
    assert "no lowering for maximum" in (place / "page.md").read_text()
    (place / "lame").write_text("")
    code, output = nightly(place, *gate, verb="gate")
    assert (code, "nothing worse, " in output, "fixed" in output) == (0, True, True), output
    # What a night knows as wrong comes first when the budget is short.
    order = sorted(place.glob(".opscope/gates/*/*.history.json"))[0].read_text()
    assert order.count("true") == order.count("[true")
    assert "[true" in order
    for words, line in (
        (("--baseline", "no-branch"), "--baseline: expected a complete night of branch `no-branch`, got"),
        (("--budget", "never"), "--budget: expected a time with a unit"),
        (("--model", "mnist_mlq"), "--model: expected"),
    ):
        code, output = nightly(place, *gate, *words, verb="gate")
        assert (code, line in output) == (2, True), output


@pytest.fixture(params=["a small disk", "files that may not grow"])
def full(request: pytest.FixtureRequest, place: Path) -> Iterator[Callable[[], tuple[int, str]]]:
    """Runs the night where `.opscope` takes no more; the limit on files needs no right to mount."""
    small = place / ".opscope"
    small.mkdir()
    if request.param == "files that may not grow":
        yield lambda: nightly(place, file_blocks=24)
        return
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(small)], capture_output=True).returncode:
        pytest.skip("mounting a small disk takes the rights of root; files that may not grow stand for it")
    try:
        yield lambda: nightly(place)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_full_disk_ends_a_night_in_words_and_it_goes_on_when_there_is_room(
    place: Path, full: Callable[[], tuple[int, str]]
) -> None:
    code, output = full()
    # Where the summary still fits, the policy decides: by default a night that is partial and waits passes.
    assert code in (1, 2) or ("partial: " in output and "spooled: the database could not be reached" in output), output
    assert "Traceback" not in output
    assert "No space left on device" in output or "File too large" in output, output
    if os.path.ismount(place / ".opscope"):
        subprocess.run(["mount", "-o", "remount,size=64m", str(place / ".opscope")], check=True)
    code, output = nightly(place)
    assert code == 0, output
    assert rows(place, "SELECT night_status FROM night_status ORDER BY night_id DESC")[0] == ("complete",)


def test_a_backend_that_cannot_work_here_is_a_row_of_the_night(place: Path) -> None:
    """Its sweep is refused; the others run, are published and compared, and the night says what is missing."""
    (place / "broken.so").write_text("no library")
    code, output = nightly(place, "--backend", "xla,tt:broken.so")
    assert code == 1, output
    assert "Traceback" not in output
    assert "no data: no op was attempted on tt-broken n150" in output
    assert rows(place, "SELECT backend, status, ran FROM night_series ORDER BY backend") == [
        ("tt-broken", "partial", 0),
        ("xla", "complete", 1),
    ]
    summary = (place / "page.md").read_text()
    assert (
        f"tt-broken: refused: pytest --op-by-op: --backend tt:{place}/broken.so: expected a shared library" in summary
    )
