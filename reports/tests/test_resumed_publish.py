"""A run that is killed and resumed arrives in the database that its command line named, as if nothing had happened."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opscope.harness.record.store import load_run
from opscope.harness.run import new_run
from opscope.harness.tests.own_backend import own_backend
from opscope.harness.tests.without_plugins import WITHOUT_PLUGINS

BACKEND = own_backend("slow", "time.sleep(0.3)", stages="Stage.COMPILE", top="import time")
SECONDS = 120.0


def pytest_process(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "pytest", *WITHOUT_PLUGINS, "--op-by-op", *options]
    return subprocess.Popen(
        command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )


def killed_after(records: int, folder: Path, *options: str) -> Path:
    """The folder of a run whose controller is killed once it has so many records."""
    run_dir, until = folder / "run", time.monotonic() + SECONDS
    child = pytest_process(folder, "--model", "mnist_mlp", "--backend", "slow.py", "--run-dir", "run", *options)
    while sum(path.read_bytes().count(b"\n") for path in run_dir.glob("journal/*.jsonl")) < records:
        assert child.poll() is None, child.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=SECONDS)
    return run_dir


def rows(path: Path) -> list[tuple[str, int]]:
    """Run -> number of its op tests in a database."""
    with sqlite3.connect(path) as connection:
        result = connection.execute("SELECT run_id, COUNT(*) FROM op_tests GROUP BY run_id").fetchall()
    connection.close()
    return result


@pytest.mark.slow
@pytest.mark.parametrize("url", ["sqlite:///own.sqlite", "sqlite:///{folder}/own.sqlite"])
def test_a_resumed_run_goes_to_its_own_database(tmp_path: Path, url: str) -> None:
    (tmp_path / "slow.py").write_text(BACKEND)
    run_dir = killed_after(2, tmp_path, "--publish", url.format(folder=tmp_path))
    assert not (tmp_path / "own.sqlite").exists()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    child = pytest_process(elsewhere, "--resume", "../run")
    output, _ = child.communicate(timeout=SECONDS)
    assert child.returncode == 0, output
    run = load_run(run_dir)
    assert rows(tmp_path / "own.sqlite") == [(run.record.run_id, len(run.rows))]
    assert [path for path in tmp_path.rglob("*.sqlite") if path.name != "own.sqlite"] == []
    assert not (elsewhere / "own.sqlite").exists()


ABSOLUTE = "sqlite:////somewhere/own.sqlite"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("sqlite:///own.sqlite", "sqlite:////folder/own.sqlite"),
        ("sqlite+pysqlite:///a/own.sqlite", "sqlite+pysqlite:////folder/a/own.sqlite"),
        (ABSOLUTE, ABSOLUTE),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("sqlite://", "sqlite://"),
        ("postgresql://me@host/own", "postgresql://me@host/own"),
    ],
)
def test_a_run_keeps_a_url_that_means_the_same_everywhere(given: str, stored: str) -> None:
    assert new_run._anywhere(given, Path("/folder")) == stored
