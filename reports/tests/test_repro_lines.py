"""The line that runs an op again: the same in terminal, message, page, database and dashboard, and good anywhere.

It runs in another folder, and on a machine that has neither the run, its cache, nor the compiler's files.
"""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from opscope.base.tests.captured import captured
from opscope.harness.record import store
from opscope.harness.tests.own_backend import own_backend

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
MODEL = """
func.func @main(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4x4xf32>
  %1 = stablehlo.tanh %0 : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
"""
BACKEND = own_backend(
    "no_tanh",
    """
    if b"tanh" in job.module:
        raise StageError("no tanh here")
    if stage is Stage.RUN:
        job.outputs, job.ran_on = [job.inputs[0] + job.inputs[1]], "host"
    """,
    at="host",
)
MENDED = own_backend(
    "no_tanh",
    """
    if stage is Stage.RUN:
        first, *others = job.inputs
        job.outputs, job.ran_on = [first + others[0] if others else numpy.tanh(first)], "host"
    """,
    at="host",
    top="import numpy",
)
LINE = r"pytest --op-by-op --op \S+ --run-dir [^\n<`\"]+"


@dataclass(frozen=True)
class Place:
    """A machine with one cache, where commands run in any folder."""

    folder: Path

    def call(self, *words: str, at: Path | None = None, code: int = 0, **more: str) -> str:
        """What a command prints; it ends with `code`. `more` are further variables."""
        environment = self.environment() | more
        done = captured([BIN / words[0], *words[1:]], cwd=at or self.folder, env=environment, timeout=300)
        assert done.returncode == code, (words, done.returncode, done.stdout[-2000:] + done.stderr[-2000:])
        return done.stdout + done.stderr

    def environment(self) -> dict[str, str]:
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "OPSCOPE_"))}
        cache = {"OPSCOPE_CACHE_DIR": str(self.folder.parent / "cache")}
        return mine | cache | {"COLUMNS": "120", "PYTEST_ADDOPTS": "-p no:benchmark -p no:randomly"}

    def other_machine(self) -> dict[str, str]:
        """Variables of one: another home, and a cache with nothing in it."""
        home = self.empty("home")
        return {"HOME": str(home), "OPSCOPE_CACHE_DIR": str(home / "cache")}

    def empty(self, name: str) -> Path:
        """A new folder elsewhere."""
        made = self.folder.parent / name
        made.mkdir()
        return made


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "m.mlir").write_text(MODEL)
    (tmp_path / "project" / "no_tanh.py").write_text(BACKEND)
    return Place(tmp_path / "project")


@pytest.fixture
def server(tmp_path: Path, place: Place) -> Iterator[str]:
    """An artifact server of the folder that runs are moved to."""
    (tmp_path / "moved").mkdir()
    process = subprocess.Popen(
        [BIN / "opscope", "artifacts", "serve", str(tmp_path / "moved"), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=place.environment(),
    )
    assert process.stdout is not None
    yield process.stdout.readline().split(" ")[0].rstrip("/")
    process.terminate()
    process.wait()
    process.stdout.close()


def only(pattern: str, text: str) -> str:
    """The one text that fits, however often it is there."""
    hits = set(re.findall(pattern, text))
    assert len(hits) == 1, (pattern, hits, text[-3000:])
    return hits.pop().strip()


def test_one_line_in_five_places_that_runs_in_an_empty_folder(place: Place, tmp_path: Path, server: str) -> None:
    sweep = ("pytest", "--model", "m.mlir", "--op-by-op", "--backend", "no_tanh.py", "--artifact-url", server)
    terminal = place.call(*sweep, "--tb", "no", code=1)
    message = place.call(*sweep, "--no-cache", code=1)
    terminal_line, message_line = only(LINE, terminal), only(rf"again: ({LINE})", message)
    first, second = sorted((place.folder / ".opscope" / "runs").iterdir())
    database = f"sqlite:///{place.folder}/.opscope/opscope.sqlite"
    with closing(sqlite3.connect(place.folder / ".opscope" / "opscope.sqlite")) as connection:
        stored = "SELECT DISTINCT repro FROM op_tests WHERE status = 'compile_failed' AND run_id = ?"
        shown = "SELECT DISTINCT repro FROM dashboard_ops WHERE status = 'compile_failed'"
        run_id = json.loads((first / "run.json").read_text())["run_id"]
        ((database_line,),) = connection.execute(stored, [run_id]).fetchall()
        ((dashboard_line,),) = connection.execute(shown).fetchall()
    page_line = only(rf"<code>({LINE})</code>", html.unescape((first / "report.html").read_text()))
    assert terminal_line == database_line == page_line
    of_second = json.loads((second / "run.json").read_text())["run_id"]
    assert message_line == dashboard_line == terminal_line.replace(run_id, of_second)
    assert f" --run-dir {server}/{run_id} --backend no_tanh" in terminal_line
    assert str(place.folder) not in terminal_line + message_line
    for number, line in enumerate((terminal_line, message_line)):
        assert "no tanh here" in place.call(*shlex.split(line), "--no-report", code=1)
        at = place.empty(f"empty{number}")
        known = place.call(*shlex.split(line), "--no-report", at=at, code=1, OPSCOPE_PUBLISH=database)
        assert "no tanh here" in known

    op_id = shlex.split(terminal_line)[3]
    at = place.empty("elsewhere")
    here = place.call("opscope", "repro", op_id, "--from", database, at=at).strip()
    assert here.startswith(str(second)), "the run is on this machine"
    assert "variants tried" in place.call("opscope", "probe", op_id, "--from", database, "--budget", "20s", at=at)
    for run in (first, second):
        run.rename(tmp_path / "moved" / run.name)
    begun = time.monotonic()
    folder = at / place.call("opscope", "repro", op_id[:8], "--from", database, at=at).splitlines()[0]
    assert time.monotonic() - begun < 60
    assert folder == at / ".opscope" / "repro" / op_id
    run_sh = captured(
        [folder / "run.sh"], cwd=tmp_path, env={**place.environment(), "PATH": f"{BIN}:{os.environ['PATH']}"}
    )
    assert run_sh.returncode == 1, run_sh.stdout + run_sh.stderr
    assert "it fails as recorded" in run_sh.stdout
    other = place.other_machine()
    place.folder.rename(tmp_path / "gone")
    again = place.call(*shlex.split(terminal_line), at=place.empty("other"), code=1, **other)
    assert "no tanh here" in again
    (tmp_path / "gone").rename(place.folder)
    for verb in ("probe", "reduce"):  # in the project's folder, whose own database knows the op, though no run is there
        assert "variants tried" in place.call("opscope", verb, op_id, "--budget", "20s")


def test_a_line_that_is_pasted_once_the_compiler_is_mended_changes_nothing_that_was_said(place: Place) -> None:
    """It runs what the compiler is now, as an answer of its own: the run before says what it said, in every file."""
    place.call("pytest", "--model", "m.mlir", "--op-by-op", "--backend", "no_tanh.py", code=1)
    (run,) = (place.folder / ".opscope" / "runs").iterdir()
    line = shlex.split(only(rf"<code>({LINE})</code>", html.unescape((run / "report.html").read_text())))

    def said() -> tuple[dict[Path, bytes], list[tuple[str, str]]]:
        with closing(sqlite3.connect(place.folder / ".opscope" / "opscope.sqlite")) as connection:
            ended = connection.execute("SELECT op_id, status FROM op_tests WHERE run_id = ? ORDER BY 1", [line[5]])
            return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}, ended.fetchall()

    before = said()
    (place.folder / "no_tanh.py").write_text(MENDED)
    place.call(*line[:6], "--backend", "no_tanh.py")
    assert said() == before
    newest = max((place.folder / ".opscope" / "runs").glob("2*"))
    assert newest != run
    assert store.read_run(newest).origin.options["answers"] == {"run": line[5], "ops": [line[3]]}
    assert "compile_failed" in dict(before[1]).values()
    assert "no tanh here" in place.call("opscope", "unblock"), "the run of all ops counts"


def test_a_compiler_with_files_beside_it_goes_along(place: Place, tmp_path: Path) -> None:
    backend = place.folder / "no_tanh.py"
    beside = """import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import refusals
"""
    backend.write_text(
        beside + BACKEND.replace('"no tanh here"', '(HERE / f"text_{self.name}.txt").read_text() + refusals.WHY')
    )
    (place.folder / "text_no_tanh.txt").write_text("no tanh ")
    (place.folder / "refusals.py").write_text("WHY = 'for now'")
    place.call("pytest", "--model", "m.mlir", "--op-by-op", "--backend", "no_tanh.py", code=1)
    (run,) = (place.folder / ".opscope" / "runs").iterdir()
    (repro,) = run.glob("artifacts/*/repro-no_tanh")
    assert {path.name for path in (repro / "backend").iterdir()} == {"no_tanh.py", "text_no_tanh.txt", "refusals.py"}
    line = shlex.split(only(rf"<code>({LINE})</code>", html.unescape((run / "report.html").read_text())))
    op_id, other = line[3], place.other_machine()
    checkout, folder = place.empty("checkout"), tmp_path / "sent" / "repro"
    shutil.copytree(repro, folder)
    shutil.copytree(run, checkout / ".opscope" / "runs" / "of-a-runner")
    place.folder.rename(tmp_path / "gone")
    assert "no tanh for now" in place.call(*line, at=checkout, code=1, **other), "the cache that the run names is there"
    (tmp_path / "cache").rename(tmp_path / "gone" / "cache")
    for words, at in ((line, checkout), ([*line[:4], "--run-dir", str(folder)], checkout), (line[:4], folder)):
        assert "no tanh for now" in place.call(*words, at=at, code=1, **other)
    for at in (checkout, folder):
        newest = max((at / ".opscope" / "runs").glob("2*"))
        assert store.read_run(newest).origin.options["answers"] == {"run": line[5], "ops": [op_id]}


def test_where_nothing_serves_the_run_one_line_says_so(place: Place, tmp_path: Path) -> None:
    place.call("pytest", "--model", "m.mlir", "--op-by-op", "--backend", "no_tanh.py", code=1)
    (run,) = (place.folder / ".opscope" / "runs").iterdir()
    run.rename(tmp_path / "gone")
    said = place.call("opscope", "repro", "", "--from", "sqlite:///.opscope/opscope.sqlite", code=2)
    assert "expected" in said
    with closing(sqlite3.connect(place.folder / ".opscope" / "opscope.sqlite")) as connection:
        ((op_id,),) = connection.execute(
            "SELECT DISTINCT op_id FROM op_tests WHERE status = 'compile_failed'"
        ).fetchall()
    said = place.call("opscope", "repro", op_id, code=2)
    assert said.count("\n") == 1
    assert str(run) in said
    assert f"try opscope artifacts serve there, and opscope repro {op_id} --from http://HOST:PORT" in said
