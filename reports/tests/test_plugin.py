"""At the end of a real run the report and the database are there, and no trouble with them changes the run."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from opscope.base.installing import install_command
from opscope.harness.record.store import load_run
from opscope.harness.tests.without_plugins import WITHOUT_PLUGINS

Done = subprocess.CompletedProcess[str]


NET = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.abs %x : tensor<4xf32>
  %1 = stablehlo.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "net.mlir").write_text(NET)
    return folder


SWEEP = ("--model", "net.mlir", "--op-by-op", "--backend", "null")
LOADED = """
import sys, pytest
code = pytest.main(sys.argv[1:])
print("loaded:", [name for name in ("sqlalchemy", "jinja2", "numpy", "jax", "xdsl", "asyncio") if name in sys.modules])
sys.exit(code)
"""
"""A pytest that says at its end what it has imported."""


def sweep(folder: Path, *options: str) -> Done:
    command = [sys.executable, "-P", "-c", LOADED, *WITHOUT_PLUGINS, *SWEEP, *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def first(folder: Path) -> tuple[Path, Done]:
    """A run that the tests share."""
    done = sweep(folder, "--run-dir", str(folder / "first"))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "first", done


def test_a_run_leaves_a_report_and_rows(folder: Path, first: tuple[Path, Done]) -> None:
    run_dir, done = first
    assert f"report    {run_dir.name}/report.html" in done.stdout
    run = load_run(run_dir)
    with sqlite3.connect(folder / ".opscope" / "opscope.sqlite") as connection:
        of_run = ("WHERE run_id = ?", (run.record.run_id,))
        stored = dict(connection.execute(f"SELECT op_id, status FROM op_tests {of_run[0]}", of_run[1]).fetchall())
        options = json.loads(connection.execute(f"SELECT options FROM runs {of_run[0]}", of_run[1]).fetchone()[0])
    connection.close()
    assert stored == {test.op_id: test.status.value for test in run.tests}
    assert stored
    assert options == run.record.origin.options
    assert "Failing ops" in (run_dir / "report.html").read_text(encoding="utf-8")
    assert done.stdout.splitlines()[-1] == "loaded: []", "the pytest process leaves report and database to a fork"


REFUSED = {
    "mysql": "a SQLite or PostgreSQL URL, got `mysql`; try sqlite:///results.sqlite or postgresql://user@host/name",
    "postgresql+pg8000": f"an installed database driver, got no module `pg8000`; try {install_command('postgres')}",
}
"""Scheme of a URL that nothing can publish to -> what the line says of it."""

ONE_AFTER_ANOTHER = """
import json, sys, pytest
for words in json.loads(sys.argv[1]):
    print("code", int(pytest.main(words)), file=sys.stderr)
"""


@pytest.mark.slow
def test_a_database_that_cannot_be_had_is_one_line(folder: Path, first: tuple[Path, Done]) -> None:
    run_dir, _ = first
    op = load_run(run_dir).tests[0].op_id
    report = (run_dir / "report.html").read_text()
    run = [*WITHOUT_PLUGINS, *SWEEP, "--run-dir", str(folder / "fourth")]
    again = [*WITHOUT_PLUGINS, "--op", op, "--op-by-op", "--backend", "null", "--run-dir", str(run_dir)]
    # One process for all: most of the time goes into starting pytest.
    asked = [[*run, "--publish", f"{scheme}://ann:hunter2@host/db"] for scheme in REFUSED]
    asked += [[*again, "--publish", "sqlite:////proc/nowhere/db.sqlite"]]
    command = [sys.executable, "-P", "-c", ONE_AFTER_ANOTHER, json.dumps(asked)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    # A bad URL is refused before an op runs; one that nobody can write to costs the run nothing.
    expected = [
        line for message in REFUSED.values() for line in (f"pytest --op-by-op: --publish: expected {message}", "code 2")
    ]
    assert (done.returncode, done.stderr.splitlines()) == (0, [*expected, "code 0"])
    assert not (folder / "fourth").exists()
    assert [line for line in done.stdout.splitlines() if line.startswith("--publish: expected a writable folder")]
    assert "Traceback" not in done.stdout
    (of_again,) = (folder / ".opscope" / "runs").glob("*-again+*")
    assert (of_again / "report.html").is_file()
    assert [test.op_id for test in load_run(of_again).tests if test.status != "skipped"] == [op]
    assert (run_dir / "report.html").read_text() == report, "what a run says stays as it is"


@pytest.mark.slow
def test_a_run_whose_database_is_away_waits_and_ends_as_its_ops_did(folder: Path, first: tuple[Path, Done]) -> None:
    (folder / "away.sqlite").mkdir()
    url = f"sqlite:///{folder}/away.sqlite"
    done = sweep(folder, "--run-dir", str(folder / "away"), "--publish", url)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "opscope publish, which delivers" in line]
    assert line.startswith("--publish: expected to write sqlite:///")
    assert "Traceback" not in done.stdout + done.stderr
    opscope = [sys.executable, "-m", "opscope.harness.cli.main"]
    status = [*opscope, "status", "--database", url]
    shown = subprocess.run(status, cwd=folder, capture_output=True, text=True)
    assert (shown.returncode, shown.stdout.startswith("1 run waits in the spool")) == (2, True), shown
    (folder / "away.sqlite").rmdir()
    subprocess.run([*opscope, "publish", "--to", url], cwd=folder, check=True)
    shown = subprocess.run(status, cwd=folder, capture_output=True, text=True)
    assert (shown.returncode, shown.stdout) == (0, "newest complete night: none\n")


@pytest.mark.slow
def test_only_the_controller_reports(folder: Path) -> None:
    done = sweep(folder, "-n", "2", "--run-dir", str(folder / "workers"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("report.html") == 1
    assert (folder / "workers" / "report.html").is_file()


@pytest.mark.slow
def test_no_report_means_none(folder: Path) -> None:
    run_dir = folder / "third"
    done = sweep(folder, "--run-dir", str(run_dir), "--no-report", "--publish", "oracle://ignored")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (run_dir / "report.html").exists()
    assert "report.html" not in done.stdout
