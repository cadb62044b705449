"""The same answers from a real PostgreSQL server, started here; skipped where there is none, or no driver for it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from harness.errors import InputError
from reports import frames
from reports.ask import ask
from reports.choosing import open_runs
from reports.diff import compare
from reports.history import compared
from reports.outcomes import from_database, from_folder
from reports.publish import publish
from reports.readiness import history
from reports.reading import read_database
from reports.tests import test_ask, test_diff, test_unblock
from reports.tests.nights import night

pytestmark = [pytest.mark.slow]
pytest.importorskip("psycopg")

SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
INITDB = shutil.which("initdb") if os.geteuid() and not SERVERS else str(SERVERS[-1]) if SERVERS else None
if INITDB is None:
    pytest.skip("no PostgreSQL server on this machine", allow_module_level=True)


def as_user(folder: Path, *words: str) -> None:
    """Runs a server's program; PostgreSQL refuses root, so root runs it as `postgres`."""
    switch: list[str] = []
    if os.geteuid() == 0:
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("root without an account `postgres`")
        os.chown(folder, account.pw_uid, account.pw_gid)
        switch = ["runuser", "-u", "postgres", "--"]
    subprocess.run([*switch, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a fresh server without a database name."""
    # Below /tmp: the server's account may not reach into the folders of tests, and sockets need short paths.
    folder = Path(f"/tmp/opscope-postgres-{os.getpid()}")
    folder.mkdir(mode=0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    control = str(Path(str(INITDB)).with_name("pg_ctl"))
    data = str(folder / "data")
    try:
        as_user(folder, str(INITDB), "-D", data, "-A", "trust", "-U", "postgres", "--no-sync")
        options = f"-p {port} -k {folder} -c fsync=off -c listen_addresses=127.0.0.1"
        as_user(folder, control, "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
        yield f"postgresql+psycopg://postgres@127.0.0.1:{port}"
        as_user(folder, control, "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(server: str, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.nodeid))}"
    engine = sa.create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"{server}/{name}"


def test_every_question_has_the_answer_that_sqlite_gives(url: str, tmp_path: Path) -> None:
    test_ask.fill(tmp_path, url)
    for name in test_ask.EXPECTED:
        test_ask.check(url, name)
    assert ask(url, "SELECT ':x' AS x WHERE 'a%b' LIKE '%' AND 5 % 2 = 1").rows == ((":x",),)
    for frame, columns in ((frames.op_tests(url), "op_tests"), (frames.coverage(url), "coverage")):
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == {
            name: kind.dtype for name, kind in frames.COLUMNS[columns].items()
        }
        assert len(frame)


@pytest.mark.parametrize(
    "query",
    ["DELETE FROM runs", "SELECT 1; DROP TABLE runs CASCADE", "SELECT 1; COMMIT; DROP TABLE runs CASCADE", "SELEC 1"],
)
def test_a_query_changes_nothing(url: str, tmp_path: Path, query: str) -> None:
    test_ask.fill(tmp_path, url)
    with pytest.raises(InputError) as error:
        ask(url, query)
    assert "\n" not in str(error.value)
    assert ask(url, "SELECT COUNT(*) FROM runs").rows == ((4,),)


def test_runs_compare_and_move_as_in_folders(url: str, tmp_path: Path) -> None:
    table = test_diff.TABLE
    for number, side in ((1, 0), (2, 1)):
        publish(night(tmp_path, number, {name: row[side] for name, row in table.items() if row[side]}), url)
    with read_database(url) as connection:
        found = compare(from_database(connection, "night01"), from_database(connection, "night02"))
    folders = compare(from_folder(tmp_path / "night01"), from_folder(tmp_path / "night02"))
    assert (found.rows, found.rates, found.clusters) == (folders.rows, folders.rates, folders.clusters)
    publish(night(tmp_path, 3, test_unblock.OPS), url)
    with open_runs(url) as runs:
        assert compared(runs).b.run_id == "night02"  # night03 has no model in common with it
        assert [row["missing"] for row in history(runs, runs.view("night03"), "b")] == [3]
