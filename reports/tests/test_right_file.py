"""Results go into the file that was meant, and come from it; a file of anything else is no database that is away."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opscope.harness.cli.main import main
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import load_run
from opscope.harness.run import resumed_run
from opscope.reports.commands.publish import publish as command
from opscope.reports.database.ask import ask
from opscope.reports.database.files import default_url, file_url
from opscope.reports.database.reading import read_database
from opscope.reports.demo.cli import demo
from opscope.reports.publish import spool
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.nights import Op, night
from opscope.reports.tests.test_killed_writer import unprivileged

OPS = {"add": Op(uses={"a": 1})}


def run_publish(*words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=False)


@pytest.mark.parametrize("name", ["ws%2Fx", "w?a", "w#c", "w% dé&e=f"])
def test_the_default_database_is_in_its_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / name
    home.mkdir()
    monkeypatch.chdir(home)
    assert run_publish(str(night(tmp_path / "runs", 1, OPS))).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({name, "runs"})
    assert (home / ".opscope" / "opscope.sqlite").is_file()
    for url in (None, default_url(home)):
        assert ask(url, "SELECT run_id FROM runs").rows == (("night01",),)
    with read_database(file_url(home / ".opscope" / "opscope.sqlite")):
        pass


@pytest.mark.slow
def test_the_demo_is_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "w%3Fa?b"
    home.mkdir()
    monkeypatch.chdir(home)
    done = CliRunner().invoke(demo, ["--nights", "1"], catch_exceptions=False)
    assert done.exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == [home.name]
    (run, *_) = sorted((home / ".opscope" / "demo" / "runs").iterdir())
    with pytest.raises(InputError, match="--resume: expected a run that names the models it was asked for, got"):
        resumed_run._models(load_run(run))


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.execute("CREATE TABLE runs (distance REAL)")


def another_alembic(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('ae1027a6acf')")


def text(path: Path) -> None:
    path.write_text("no database, but a text of some length\n" * 200)


def cut(path: Path) -> None:
    fresh(path)
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (foreign, "or a new file, got one of another program (its tables: bookmarks, runs); try another file"),
        (another_alembic, "or a new file, got schema ae1027a6acf; try another file"),
        (text, "got file is not a database; try another file: this one is no database"),
        (cut, "got database disk image is malformed; try a backup, or a new database and publishing again"),
    ],
)
def test_a_file_of_something_else_is_refused_and_stays_as_it_is(
    make: Callable[[Path], None], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "db.sqlite")
    before = (tmp_path / "db.sqlite").read_bytes()
    url = "sqlite:///db.sqlite"
    done = run_publish(str(night(tmp_path / "runs", 1, OPS)), "--to", url)
    assert done.exit_code == 2
    got, hint = says.split("; try ")
    assert got in done.output
    assert hint in done.output
    assert spool.waiting(url, tmp_path) == []
    (aside,) = spool.refused(url, tmp_path)
    assert aside.folder.name == "night01"
    with pytest.raises(InputError) as error, read_database(url):
        pass
    assert says in str(error.value)
    assert (tmp_path / "db.sqlite").read_bytes() == before
    assert not (tmp_path / "db.sqlite-journal").exists()


def test_folders_are_compared_without_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default one may be of another opscope; one that is named is asked for."""
    monkeypatch.chdir(tmp_path)
    runs = [str(night(tmp_path / "runs", number, OPS)) for number in (1, 2)]
    path = Path(default_url().removeprefix("sqlite:///"))
    path.parent.mkdir()
    fresh(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0026'")
    for words in (["diff", *runs], ["unblock", runs[0]], ["export", runs[0], "--format", "csv", "-o", "-"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code in (0, None), capsys.readouterr().err
        with pytest.raises(SystemExit) as ended:
            main([*words, "--db", default_url()])
        assert ended.value.code == 2
    with pytest.raises(SystemExit) as ended:
        main(["diff", runs[0]])
    assert ended.value.code == 2
    assert "try publishing the run folders" in capsys.readouterr().err


def test_a_run_folder_that_may_not_be_entered_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Path(tempfile.mkdtemp(prefix="opscope-closed-", dir="/tmp"))
    place.chmod(0o777)
    monkeypatch.chdir(place)
    run, other = night(place, 1, OPS), night(place, 2, OPS)
    calls = (["publish"], ["diff", str(other)], ["show"], ["report"], ["export", "--format", "csv", "-o", "-"])
    for words in calls:  # what these import may be closed to others as well
        with pytest.raises(SystemExit):
            main([*words, str(other)])
    capsys.readouterr()
    run.chmod(0)
    try:
        with unprivileged():
            for words in calls:
                with pytest.raises(SystemExit) as ended:
                    main([*words, str(run)])
                lines = capsys.readouterr().err.splitlines()
                assert (ended.value.code, len(lines)) == (2, 1), lines
                assert "ermission denied" in lines[0], lines
    finally:
        os.chdir(tmp_path)
        run.chmod(0o755)
        shutil.rmtree(place)


def test_a_password_with_a_slash_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_publish(str(night(tmp_path / "runs", 1, OPS)), "--to", "postgresql://me:geh/eim@127.0.0.1:1/results")
    assert done.exit_code == 1
    assert "geh" not in done.output
    for path in tmp_path.rglob("*"):
        assert "geh" not in str(path)
        assert not path.is_file() or b"eim" not in path.read_bytes()
