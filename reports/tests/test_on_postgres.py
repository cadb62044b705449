"""The same answers from a real PostgreSQL server, started here; skipped where there is none, or no driver for it."""

from __future__ import annotations

import json
import shutil
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from opscope.harness.cli.main import main
from opscope.harness.record.errors import InputError
from opscope.reports.commands.db import db
from opscope.reports.commands.publish import publish as publish_command
from opscope.reports.compare.diff import compare
from opscope.reports.compare.history import compared
from opscope.reports.compare.outcomes import from_database, from_folder
from opscope.reports.compare.readiness import history
from opscope.reports.compare.run_selection import open_runs
from opscope.reports.database import reclaim as reclaiming
from opscope.reports.database.ask import ask
from opscope.reports.database.database import open_database, views
from opscope.reports.database.dump import dump
from opscope.reports.database.frame_types import COUNT, NUMBER, TEXT, TIME, TRUTH, type_of
from opscope.reports.database.reading import read_database
from opscope.reports.database.schema import METADATA
from opscope.reports.exports import frames
from opscope.reports.publish import spool
from opscope.reports.publish.publish import publish
from opscope.reports.publish.upkeep import size_of
from opscope.reports.tests import (
    every_kind,
    postgres_server,
    stored_head,
    test_ask,
    test_diff,
    test_migrations,
    test_night_views,
    test_unblock,
)
from opscope.reports.tests.night_runs import fresh, record, rows, shard_run
from opscope.reports.tests.nights import Op, night
from opscope.reports.tests.sample_run import OPS, make_run

pytestmark = [pytest.mark.slow]


@pytest.fixture
def url() -> str:
    return postgres_server.shared().database()


def test_every_question_has_the_answer_that_sqlite_gives(url: str, tmp_path: Path) -> None:
    test_ask.fill(tmp_path, url)
    for name in test_ask.EXPECTED:
        test_ask.check(url, name)
    assert ask(url, "SELECT ':x' AS x WHERE 'a%b' LIKE '%' AND 5 % 2 = 1").rows == ((":x",),)
    frame = frames.op_tests(url)
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == {
        name: kind.dtype for name, kind in frames.COLUMNS["op_tests"].items()
    }
    assert len(frame)


@pytest.mark.parametrize("number", stored_head.stored())
def test_what_was_stored_is_read_and_added_to(
    url: str, number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_head.extract(number, tmp_path)
    monkeypatch.chdir(tmp_path)
    postgres_server.shared().restore(url, tmp_path / stored_head.POSTGRES)
    test_migrations.check_stored(url, tmp_path, number)


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


def test_a_query_without_end_or_misspelt_is_at_fault_itself(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_ask.fill(tmp_path, url)
    test_ask.check_endless(url, monkeypatch)
    test_ask.check_misspelt(url)
    for statement in ("SHOW search_path", "EXPLAIN SELECT 1", "TABLE runs", "VALUES (1)", "(SELECT 1)"):
        assert ask(url, statement).rows


@pytest.mark.skipif(not (shutil.which("pg_dump") and shutil.which("psql")), reason="PostgreSQL's client is missing")
def test_a_dump_is_read_by_another_database(url: str, tmp_path: Path) -> None:
    test_ask.fill(tmp_path, url)
    file, again = tmp_path / "results.sql", postgres_server.shared().database()
    assert dump(url, file) == file.stat().st_size
    postgres_server.shared().restore(again, file)
    question = "SELECT op_id, status, pcc FROM op_tests ORDER BY op_id, run_id"
    assert ask(again, question).rows == ask(url, question).rows
    with pytest.raises(InputError, match=r"a database that pg_dump reads, got .*nowhere"):
        dump(f"{url.rpartition('/')[0]}/nowhere", tmp_path / "none.sql")
    assert [path.name for path in tmp_path.glob("*.sql")] == ["results.sql"], "none that is half written"


def test_runs_compare_and_move_as_in_folders(url: str, tmp_path: Path) -> None:
    table = test_diff.TABLE
    for number, side in ((1, 0), (2, 1)):
        publish(night(tmp_path, number, {name: row[side] for name, row in table.items() if row[side]}), url)
    with read_database(url) as connection:
        diff = compare(from_database(connection, "night01"), from_database(connection, "night02"))
    folders = compare(from_folder(tmp_path / "night01"), from_folder(tmp_path / "night02"))
    assert (diff.rows, diff.rates, diff.clusters) == (folders.rows, folders.rates, folders.clusters)
    publish(night(tmp_path, 3, test_unblock.OPS), url)
    with open_runs(url) as runs:
        assert compared(runs)[0].b.run_id == "night02"  # night03 has no model in common with it
        assert [row.missing for row in history(runs, runs.view("night03"), "b")] == [3]


def test_every_view_of_nights_counts_as_on_sqlite(url: str, tmp_path: Path) -> None:
    test_night_views.fill(url, tmp_path)
    for query, expected in test_night_views.EXPECTED.items():
        assert rows(url, query) == expected, query


def test_nights_of_every_kind_count_as_on_sqlite(url: str, tmp_path: Path) -> None:
    """What charts may not add up: the rows of every view of nights, with types of their frames."""
    pandas = pytest.importorskip("pandas", reason="pip install 'opscope[frames]'")
    other = fresh(tmp_path / "db.sqlite")
    for target in (url, other):
        every_kind.fill(tmp_path / "runs", target)
        shutil.rmtree(tmp_path / "runs")
    for name in views():
        if name.startswith(("night_", "dashboard_")):
            sides = [getattr(frames, name)(target) for target in (url, other)]
            sides = [side.sort_values(list(side.columns), ignore_index=True) for side in sides]
            pandas.testing.assert_frame_equal(*sides, obj=name)


KINDS = {
    "bigint": {COUNT},
    "integer": {COUNT},
    "numeric": {COUNT, NUMBER},
    "double precision": {NUMBER},
    "text": {TEXT},
    "boolean": {TRUTH},
    "timestamp with time zone": {TIME},
}
"""Type of a column in PostgreSQL -> types that it may have in a frame; sums and quotients are both `numeric`."""


def test_the_frame_of_every_view_is_that_of_sqlite(url: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pip install 'opscope[frames]'")
    other = fresh(tmp_path / "db.sqlite")
    test_night_views.fill(other, tmp_path)
    nights = sorted(path.parent for path in tmp_path.glob("**/run.json"))
    for target in (url, other):
        publish(make_run(tmp_path / "run"), target)
        for night_run in nights:
            publish(night_run, target)
    types = ask(
        url,
        "SELECT table_name, column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = 'public' ORDER BY ordinal_position",
    ).rows
    for name in views():
        theirs, ours = (getattr(frames, name)(target) for target in (url, other))
        assert list(theirs.columns) == [column for view, column, _ in types if view == name]
        for view, column, kind in types:
            assert view != name or type_of(name, column) in KINDS[kind], (name, column)
        sides = [side.sort_values(list(side.columns), ignore_index=True) for side in (theirs, ours)]
        pandas.testing.assert_frame_equal(*sides, obj=name)


def test_the_tables_are_those_of_sqlite_with_the_same_rows(url: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/db.sqlite"
    night_record = record(1, shards=2)
    ops = {"add": Op(uses={"a": 1}), "exp": Op("run_failed", uses={"b": 1}, pcc=float("nan"))}
    runs = [make_run(tmp_path / "run"), *(shard_run(tmp_path, night_record, number, ops, number) for number in (1, 2))]
    for target in (url, other):
        for run in (*runs, runs[0]):
            publish(run, target)
    for table in METADATA.sorted_tables:
        rows = []
        for target in (url, other):
            with open_database(target) as connection:
                rows.append(sorted(map(repr, connection.execute(sa.select(table)).all())))
        assert rows[0] == rows[1], table.name


def test_publishing_twice_changes_nothing(url: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    dumps = []
    for _ in range(2):
        publish(run, url)
        with open_database(url) as connection:
            tables = METADATA.sorted_tables
            dumps.append([sorted(map(repr, connection.execute(sa.select(table)).all())) for table in tables])
    assert dumps[0] == dumps[1]


def test_prune_gives_the_disk_back(url: str, tmp_path: Path) -> None:
    many = {f"op{number}": Op("crashed", uses={"a": 1}, error=f"{number} " + "x" * 4000) for number in range(300)}
    publish(night(tmp_path, 1, many), url)
    publish(night(tmp_path, 9, {"add": Op(uses={"a": 1})}), url)
    before = size_of(url)
    days = (datetime.now(UTC) - datetime(2026, 11, 5, tzinfo=UTC)).days
    keep = ["prune", "--keep", f"{days}d", "--db", url]
    with read_database(url) as connection:  # somebody reads, and does not stop
        connection.execute(sa.text("SELECT COUNT(*) FROM op_tests"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reclaiming, "WAIT_SECONDS", 1)
            done = CliRunner().invoke(db, keep)
    assert done.exit_code == 1, done.output
    assert "VACUUM FULL" in done.stderr
    assert ask(url, "SELECT COUNT(*) FROM op_tests").rows == ((1,),)
    reclaiming.reclaim(url, removed=True)
    assert size_of(url) < before - 300 * 1000
    assert CliRunner().invoke(db, keep).output == "removed: 0 nights, 0 runs, 0 op tests\n"


def test_two_publishers_at_once(url: str, tmp_path: Path) -> None:
    night_record = record(1, shards=6)
    ops = {"add": Op(uses={"a": 1}), "exp": Op("crashed", uses={"b": 1})}
    runs = [shard_run(tmp_path, night_record, number, ops, number) for number in range(1, 7)]
    publish(runs[0], url)  # Alembic's context is one per process: the schema is made before the threads start
    errors: list[BaseException] = []

    def go(some: list[Path]) -> None:
        try:
            for run in some:
                publish(run, url)
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread of the test
            errors.append(error)

    threads = [threading.Thread(target=go, args=(runs[start::2],)) for start in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert rows(url, "SELECT status, missing FROM night_series") == [("complete", "")]
    assert rows(url, "SELECT COUNT(*) FROM op_tests WHERE superseded_by = ''") == [(2,)]


def test_a_publish_that_waits_for_a_lock_ends_in_time(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    publish(night(tmp_path, 1, {"add": Op(uses={"a": 1})}), url)
    second = night(tmp_path, 2, {"add": Op(uses={"a": 1})})
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as holder:
        holder.execute(sa.text("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE"))
        began = time.monotonic()
        done = CliRunner().invoke(publish_command, [str(second), "--to", url, "--publish-timeout", "2"])
        assert time.monotonic() - began < 20
        assert done.exit_code == 1
        assert "--to: expected a publish of at most 2 s, got no end within 2 s; try opscope publish," in done.output
        assert [path.name for path in spool.waiting(url, tmp_path)] == ["night02"]
        # Not the server's own workers, of which one may wait for the same table.
        others = (
            "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
        for _ in range(300):
            left = holder.execute(sa.text(others)).scalar()
            if not left:
                break
            time.sleep(0.1)
        assert left == 0, "the server does not go on with a publish that was given up"
    engine.dispose()
    done = CliRunner().invoke(publish_command, ["--to", url, "--json"])
    assert json.loads(done.output)["from_spool"] == ["night02"], done.output
    assert ask(url, "SELECT COUNT(*) FROM runs").rows == ((2,),)


def test_a_server_that_is_killed_loses_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = postgres_server.new_server()
    url = server.database()
    monkeypatch.chdir(tmp_path)
    publish(make_run(tmp_path / "before", run_id="before"), url)
    run = make_run(tmp_path / "run", run_id="during")
    from opscope.reports.publish import publish as module

    remember_errors = module._remember_errors

    def killed(*args: object) -> None:
        server.kill()  # every row is written, and nothing committed
        remember_errors(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_remember_errors", killed)
    done = CliRunner().invoke(publish_command, [str(run), "--to", url])
    assert done.exit_code == 1, done.output
    assert len(done.output.splitlines()) == 1
    assert "opscope publish, which delivers" in done.output
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(publish_command, ["--to", url]).exit_code == 1
    server.start()
    assert ask(url, "SELECT run_id FROM runs").rows == (("before",),)
    done = CliRunner().invoke(publish_command, ["--to", url, "--json"])
    assert json.loads(done.output)["from_spool"] == ["during"]
    counts = ask(url, "SELECT run_id, COUNT(*) FROM op_tests GROUP BY run_id ORDER BY run_id").rows
    assert counts == (("before", len(OPS)), ("during", len(OPS)))
    assert not list(tmp_path.glob(".opscope/spool/*/during"))
    postgres_server.remove(server)


def test_the_role_reads_and_does_nothing_else(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(make_run(tmp_path / "run"), url)
    monkeypatch.setenv("READER", "50% o'clock")
    for _ in range(2):
        done = CliRunner().invoke(db, ["role", "opscope_reader", "--password-env", "READER", "--db", url])
        assert (done.exit_code, "50%" in done.output) == (0, False), done.output
    reader = url.replace("postgres@", "opscope_reader@")
    assert ask(reader, "SELECT COUNT(*) FROM op_tests").rows == ((len(OPS),),)
    engine = sa.create_engine(reader, poolclass=sa.NullPool)
    for statement in (
        "DELETE FROM runs",
        "CREATE TABLE mine (x int)",
        "DROP VIEW ledger",
        "SET default_transaction_read_only = off; DELETE FROM runs",
    ):
        with engine.connect() as connection, pytest.raises(sa.exc.DBAPIError):
            connection.exec_driver_sql(statement)
    with open_database(url):
        pass
    monkeypatch.setattr("opscope.reports.database.database.views", lambda: {"ledger": "SELECT 1 AS one"})
    with open_database(url):
        pass  # views that are made anew may be read too
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT one FROM ledger").scalar() == 1


def test_a_newer_schema_and_an_unknown_role_are_one_line(url: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    publish(run, url)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(InputError, match="got schema 9999; try a newer opscope"):
        publish(run, url)
    with pytest.raises(InputError) as error:
        publish(run, url.replace("postgres@", "nobody:hunter2@"))
    assert "hunter2" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_wrong_password_is_one_line_that_does_not_tell_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    role = f"r{tmp_path.name[-8:]}".lower().replace("-", "_")
    postgres_server.shared().role_with_password(role, "swordfish")
    publish(make_run(tmp_path / "run"), url)
    right, wrong = (url.replace("postgres@", f"{role}:{password}@") for password in ("swordfish", "hunter2"))

    def says(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(list(words))
        return int(end.value.code or 0), "".join(capsys.readouterr())

    for words in (
        ("sql", "SELECT 1", "--db"),
        ("unblock", "--db"),
        ("report", "--db"),
        ("db", "stats", "--db"),
        ("db", "upgrade", "--db"),
        ("dashboard", "up", "--home", str(tmp_path / "home"), "--db"),
        ("publish", str(tmp_path / "run"), "--to"),
    ):
        code, output = says(*words, wrong)
        assert code == 2, output
        assert "password authentication failed" in output, output
        assert (output.count("\n"), "hunter2" in output, "Traceback" in output) == (1, False, False), output
    assert not (tmp_path / "home").exists()
    assert says("sql", "SELECT COUNT(*) FROM op_tests", "--csv", "--db", right) == (0, f"count\n{len(OPS)}\n")


def test_a_run_waits_for_the_right_password(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input loses nothing: the run is in the spool, and whoever may in delivers it."""
    monkeypatch.chdir(tmp_path)
    role = f"w{tmp_path.name[-8:]}".lower().replace("-", "_")
    postgres_server.shared().role_with_password(role, "swordfish")
    run_id = "waits"
    run = make_run(tmp_path / "run", run_id=run_id)
    right, wrong, none = (url.replace("postgres@", f"{role}{one}@") for one in (":swordfish", ":hunter2", ""))
    nobody = url.replace("postgres@", "nobody:hunter2@")
    nowhere = url.replace(url.rpartition("/")[2], "nowhere")
    away = f"postgresql+psycopg://{role}:hunter2@127.0.0.1:1/x"

    def says(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(["publish", *words])
        return int(end.value.code or 0), "".join(capsys.readouterr())

    for target, code, reason in (
        (wrong, 2, "password authentication failed"),
        (none, 2, "no password supplied"),
        (nobody, 2, 'role "nobody" does not exist'),
        (away, 1, "onnection refused"),
        (nowhere, 2, 'database "nowhere" does not exist'),
    ):
        got, output = says(str(run), "--to", target)
        assert (got, reason in output, output.count("\n"), "hunter2" in output) == (code, True, 1, False), output
        assert ("; try the user, password and database" in output) == (code == 2), output
        assert "opscope publish, which delivers" in output
        assert [path.name for path in spool.waiting(target, tmp_path)] == [run_id]
        assert says("--to", target)[0] == code  # nor does the spool alone get in
    assert "hunter2" not in "".join(path.read_text() for path in tmp_path.glob(".opscope/**/database"))
    shutil.rmtree(run)
    code, output = says("--to", right, "--json")
    assert (code, json.loads(output)["from_spool"]) == (0, [run_id])
    assert ask(right, "SELECT COUNT(*), COUNT(DISTINCT run_id) FROM op_tests").rows == ((len(OPS), 1),)
    assert spool.waiting(wrong, tmp_path) == []


def test_a_process_that_dies_in_the_middle_leaves_nothing(url: str, tmp_path: Path) -> None:
    import subprocess
    import sys

    publish(make_run(tmp_path / "before", run_id="before"), url)
    run = make_run(tmp_path / "run", run_id="during")
    script = (
        "import os, signal; from pathlib import Path; from opscope.reports.publish import publish as m\n"
        "m._remember_errors = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"m.publish(Path({str(run)!r}), {url!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -9
    publish(run, url)
    assert ask(url, "SELECT COUNT(*) FROM op_tests").rows == ((2 * len(OPS),),)
