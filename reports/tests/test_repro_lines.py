"""The line that runs an op again: the same in terminal, message, page, database and dashboard, and good in any folder.

Once the run folder is gone, the line says in one line how to fetch the op, and that command fetches it.
"""

from __future__ import annotations

import html
import json
import os
import re
import shlex
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
LINE = r"pytest --op-by-op --op \S+ --run-dir [^\n<`\"]+"


@dataclass(frozen=True)
class Place:
    """A machine with one cache, where commands run in any folder."""

    folder: Path

    def call(self, *words: str, at: Path | None = None, code: int = 0) -> str:
        """What a command prints; it ends with `code`."""
        done = captured([BIN / words[0], *words[1:]], cwd=at or self.folder, env=self.environment(), timeout=300)
        assert done.returncode == code, (words, done.returncode, done.stdout[-2000:] + done.stderr[-2000:])
        return done.stdout + done.stderr

    def environment(self) -> dict[str, str]:
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "OPSCOPE_"))}
        cache = {"OPSCOPE_CACHE_DIR": str(self.folder.parent / "cache")}
        return mine | cache | {"COLUMNS": "120", "PYTEST_ADDOPTS": "-p no:benchmark -p no:randomly"}

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
    assert message_line == dashboard_line == terminal_line.replace(str(first), str(second))
    for number, line in enumerate((terminal_line, page_line, database_line, message_line, dashboard_line)):
        done = place.call(*shlex.split(line), "--no-report", at=place.empty(f"empty{number}"), code=1)
        assert "no tanh here" in done

    op_id = shlex.split(terminal_line)[3]
    at = place.empty("elsewhere")
    here = place.call("opscope", "repro", op_id, "--from", database, at=at).strip()
    assert here.startswith(str(second)), "the run is on this machine"
    assert "variants tried" in place.call("opscope", "probe", op_id, "--from", database, "--budget", "20s", at=at)
    for run in (first, second):
        run.rename(tmp_path / "moved" / run.name)
    gone = place.call(*shlex.split(terminal_line), at=at, code=2)
    assert f"opscope repro {op_id} --from DATABASE" in gone
    assert "Traceback" not in gone
    begun = time.monotonic()
    folder = at / place.call("opscope", "repro", op_id[:8], "--from", database, at=at).splitlines()[0]
    assert time.monotonic() - begun < 60
    assert folder == at / ".opscope" / "repro" / op_id
    run_sh = captured(
        [folder / "run.sh"], cwd=tmp_path, env={**place.environment(), "PATH": f"{BIN}:{os.environ['PATH']}"}
    )
    assert run_sh.returncode == 1, run_sh.stdout + run_sh.stderr
    assert "it fails as recorded" in run_sh.stdout
    for verb in ("probe", "reduce"):  # in the project's folder, whose own database knows the op, though no run is there
        assert "variants tried" in place.call("opscope", verb, op_id, "--budget", "20s")


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
