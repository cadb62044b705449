"""A SQLite file whose writer was killed in the middle is read as it was before, by whoever may write there."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from opscope.harness.cli.main import main
from opscope.harness.record.errors import InputError
from opscope.reports.commands.demo_mark import is_demo
from opscope.reports.database.ask import ask
from opscope.reports.database.reading import read_database
from opscope.reports.tests.night_runs import fresh, publish_night
from opscope.reports.tests.nights import Op

OPS = {f"op{number}": Op(uses={"a": 1, "b": 1}, cycles=number) for number in range(60)}


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """As a user who owns nothing, if the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


WRITER = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 4")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE op_tests SET cycles = 7, repro = repro || HEX(RANDOMBLOB(500))")
connection.execute("DELETE FROM night_counts")
os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_a_writer(path: Path) -> None:
    """Leaves a journal: a process is killed in a transaction of which a part is in the file already."""
    assert subprocess.run([sys.executable, "-c", WRITER, str(path)]).returncode == -signal.SIGKILL
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as reader, pytest.raises(sqlite3.OperationalError):
        reader.execute("SELECT COUNT(*) FROM op_tests").fetchone()  # or this test proves nothing


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database whose writer was killed, which nobody opens."""
    folder = tmp_path_factory.mktemp("killed")
    url = fresh(folder / "db.sqlite")
    for number in (1, 2):
        publish_night(url, folder / "runs", number, OPS)
    kill_a_writer(folder / "db.sqlite")
    return folder


@pytest.fixture
def folder(killed: Path) -> Iterator[Path]:
    """A copy of it that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="opscope-killed-", dir="/tmp"))
    shutil.copytree(killed, folder, dirs_exist_ok=True)
    folder.chmod(0o755)
    assert (folder / "db.sqlite-journal").stat().st_size > 0, "or this test proves nothing"
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--database"],
        ["sql", "SELECT run_id FROM runs", "--db"],
        ["diff", "--db"],
        ["unblock", "--db"],
        ["readiness", "a", "--db"],
        ["report", "--db"],
        ["show", "a", "--db"],
        ["export", "--format", "csv", "-o", "-", "--db"],
        ["db", "stats", "--db"],
        ["scoreboard", "-o", "board", "--db"],
    ],
    ids=" ".join,
)
def test_each_reader_takes_back_what_was_begun(
    words: list[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{folder}/db.sqlite"
    with pytest.raises(SystemExit) as ended:
        main([*words, url])
    assert ended.value.code in (0, None)
    assert not (folder / "db.sqlite-journal").exists()
    with sqlite3.connect(folder / "db.sqlite") as connection:
        assert connection.execute("SELECT SUM(cycles), COUNT(*) FROM op_tests").fetchone() == (2 * sum(range(60)), 120)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_who_may_not_write_there_is_told_what_does(folder: Path) -> None:
    url = f"sqlite:///{folder}/db.sqlite"
    for place, mode in ((folder, 0o555), (folder / "db.sqlite", 0o444), (folder / "db.sqlite-journal", 0o444)):
        place.chmod(mode)
    hint = rf"try opscope db upgrade --db {url} as a user who may write there: a writer of it was killed"
    with unprivileged():
        with pytest.raises(InputError, match=hint), read_database(url):
            pass
        with pytest.raises(InputError, match=hint):
            ask(url, "SELECT COUNT(*) FROM runs")
        assert not is_demo(url)
    folder.chmod(0o755)
    (folder / "db.sqlite").chmod(0o644)
    with pytest.raises(SystemExit) as ended:
        main(["db", "upgrade", "--db", url])
    assert ended.value.code in (0, None)
    with unprivileged():
        assert ask(url, "SELECT COUNT(*) FROM runs").rows == ((2,),)
