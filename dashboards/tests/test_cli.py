"""`opscope dashboard` without a Superset: what it refuses, what it says, what it keeps private."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import Home, Served
from opscope.dashboards.results import results_uri
from opscope.harness.cli.main import main
from opscope.harness.record.errors import InputError
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import copy_of, fresh
from opscope.reports.tests.sample_run import make_run


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OPSCOPE_DASHBOARD_HOME", str(tmp_path / "home"))


def says(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    with pytest.raises(SystemExit) as end:
        main(["dashboard", *words])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("published")
    url = fresh(folder / "r.sqlite")
    publish(make_run(folder / "run"), url)
    return url


@pytest.fixture
def database(published: str, tmp_path: Path) -> str:
    return copy_of(published, tmp_path / "r <1>.sqlite")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("up",), "--db: expected a results database, got no file"),
        (("up", "--db", "mysql://h/d"), "--db: expected a SQLite or PostgreSQL URL, got `mysql`"),
        (("up", "--public-url", "team.example"), "--public-url: expected an address with http:// or https://"),
        (("up", "--public-url", "https://team.example/opscope"), "--public-url: expected an address without a path"),
        (("up", "--artifact-url", "ftp://store"), "--artifact-url: expected an address with http:// or https://"),
        (("check",), "expected Superset, got none in"),
        (("backup", "b.zip"), "expected a dashboard server, got none in"),
        (("restore", "b.zip"), "b.zip: expected a backup of `opscope dashboard backup`, got"),
        (("user", "add", "admin", "--role", "viewer"), "NAME: expected a name other than `admin`"),
    ],
)
def test_a_bad_command_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], line: str
) -> None:
    code, _, err = says(capsys, *words)
    assert code == 2
    assert err.startswith(f"opscope dashboard {' '.join(words[:2] if words[0] == 'user' else words[:1])}: {line}")
    assert err.count("\n") == 1


def test_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = says(capsys, "status", "--json")
    assert code == 1
    assert json.loads(out)["running"] is False
    assert says(capsys, "down")[:2] == (0, "no server is running\n")


def test_sqlite_is_named_read_only_whatever_its_path(database: str) -> None:
    results = results_uri(database)
    assert results.uri.startswith("sqlite:///file:/")
    assert results.uri.endswith("/r%20%3C1%3E.sqlite?mode=ro&uri=true")
    with pytest.raises((DashboardError, InputError), match="--db: expected"):
        results_uri("sqlite://")


def test_a_database_without_the_views_of_charts_says_how_to_get_them(database: str) -> None:
    with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as connection:
        connection.execute("DROP VIEW dashboard_ops")
    with pytest.raises(
        DashboardError, match=r"--db: .*without `dashboard_ops`; try opscope db upgrade --db sqlite:///"
    ):
        results_uri(database)


def test_a_database_with_the_views_of_an_older_opscope_says_so(database: str) -> None:
    with closing(sqlite3.connect(database.removeprefix("sqlite:///"))) as connection:
        (select,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'dashboard_verdict'").fetchone()
        connection.execute("DROP VIEW dashboard_verdict")
        connection.execute(select.replace("END AS verdict,", "END AS judgement,"))
    with pytest.raises(DashboardError, match=r"--db: .*without `dashboard_verdict.verdict`; try opscope db upgrade"):
        results_uri(database)


def test_a_port_in_use_is_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], database: str, tmp_path: Path
) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = says(capsys, "up", "--db", database, "--port", str(taken.getsockname()[1]))
    assert code == 2
    assert err.startswith("opscope dashboard up: --port: expected a free port on 127.0.0.1, got")
    assert not (tmp_path / "home").exists()


def test_kept_files_are_private(tmp_path: Path) -> None:
    home = Home(tmp_path / "h", tmp_path / "c")
    home.make()
    assert home.secret("secret_key", 42)
    first = (home.folder / "secret_key").read_text()
    assert not home.secret("secret_key", 42)
    assert (home.folder / "secret_key").read_text() == first
    assert len(first) > 50
    served = Served("postgresql://u:password@h/d", "postgresql://u:***@h/d", "127.0.0.1", 1, "", "", False)
    home.remember(served)
    home.remember(served)
    assert home.served() == served
    for path in home.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700


def test_addresses() -> None:
    one = Served("", "", "0.0.0.0", 8088, "", "", False)
    assert (one.local_url, one.url) == ("http://127.0.0.1:8088",) * 2
    two = Served("", "", "127.0.0.1", 8088, "https://team.example", "", False)
    assert (two.local_url, two.url) == ("http://127.0.0.1:8088", "https://team.example")
