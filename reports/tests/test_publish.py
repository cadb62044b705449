"""A published run is its records: row by row, again and again the same, and never half of it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from opscope.harness.cli.main import main
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest, RunRecord
from opscope.harness.record.stages import Status
from opscope.harness.record.store import Journal, load_run, write_run
from opscope.reports.commands.publish import publish as publish_command
from opscope.reports.database.database import open_database
from opscope.reports.database.rows import signature
from opscope.reports.database.schema import DROPPED, OP_TESTS, RUNS
from opscope.reports.publish import publish as publishing
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.sample_run import OPS, make_run, op_id


def dump(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        lines = list(connection.iterdump())
    connection.close()
    return lines


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


def test_every_record_comes_back_as_it_was(run_dir: Path, tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    counts = publish(run_dir, url)
    run = load_run(run_dir)
    assert counts["op_tests"] == len(OPS)
    assert {test.status for test in run.tests} == set(Status) - {Status.STOPPED}
    assert counts["uses"] == sum(len(row.uses) for row in run.rows)
    with open_database(url) as connection:
        for test in run.tests:
            row = connection.execute(sa.select(OP_TESTS).where(OP_TESTS.c.op_id == test.op_id)).mappings().one()
            values = {name: row[name] for name in OpTest.model_fields if name not in DROPPED}
            again = OpTest.model_validate({**values, "results": ()})
            message = (test.error_message or "").replace("\0", "\\0") or None
            assert again == test.model_copy(
                update={
                    "results": (),
                    "error_message": message,
                    "op_params": {},
                    "locations": (),
                    "models": (),
                }
            )
        stored = connection.execute(sa.select(RUNS)).mappings().one()
        assert stored["started"] == run.record.started
        assert stored["host"] == run.record.origin.host


def test_publishing_twice_changes_nothing(run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = fresh(tmp_path / "db.sqlite")
    first = publish(run_dir, url)
    before = dump(tmp_path / "db.sqlite")
    with monkeypatch.context() as without:
        without.setattr(publishing.rows, "read", lambda *_: pytest.fail("read again"))
        assert publish(run_dir, url) == first
    assert dump(tmp_path / "db.sqlite") == before
    with sqlite3.connect(tmp_path / "db.sqlite") as connection:
        connection.execute("UPDATE runs SET published = NULL")  # as if other code had made the rows
    connection.close()
    assert publish(run_dir, url) == first
    assert dump(tmp_path / "db.sqlite") == before


def test_two_runs_share_their_ops(run_dir: Path, tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    publish(run_dir, url)
    publish(make_run(tmp_path / "other", run_id="another"), url)
    with open_database(url) as connection:
        count = {t: connection.scalar(sa.text(f"SELECT COUNT(*) FROM {t}")) for t in ("runs", "ops", "op_tests")}
    assert count == {"runs": 2, "ops": len(OPS), "op_tests": 2 * len(OPS)}


def test_of_two_attempts_both_are_kept_and_the_later_counts(run_dir: Path, tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    publish(run_dir, url)
    failed = next(test for test in load_run(run_dir).tests if test.status is Status.RUN_FAILED)
    with Journal(run_dir, "again") as journal:
        journal.append(failed.model_copy(update={"attempt": 2, "status": Status.SUCCESS, "success": True}))
    publish(run_dir, url)
    with open_database(url) as connection:
        columns = (OP_TESTS.c.attempt, OP_TESTS.c.status, OP_TESTS.c.superseded_by, OP_TESTS.c.run_id)
        rows = connection.execute(
            sa.select(*columns).where(OP_TESTS.c.op_id == failed.op_id).order_by(OP_TESTS.c.attempt)
        ).all()
    run_id = rows[0].run_id
    assert [tuple(row) for row in rows] == [(1, "run_failed", run_id, run_id), (2, "success", "", run_id)]


def test_another_run_of_the_same_id_is_not_overwritten(run_dir: Path, tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    publish(run_dir, url)
    record = load_run(run_dir).record
    origin = record.origin.model_copy(update={"host": "another-host"})
    write_run(run_dir, RunRecord(**{**dict(record), "origin": origin}))
    with pytest.raises(InputError, match="or nothing by its name, got the same id"):
        publish(run_dir, url)


def test_the_command_prints_counts_and_no_password(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = CliRunner().invoke(publish_command, [str(run_dir), "--to", f"sqlite:///{tmp_path}/x.sqlite", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["rows"]["runs"] == 1
    with pytest.raises(SystemExit, match="2"):
        main(["publish", str(run_dir), "--to", "mysql://u:hunter2@host/db"])
    line = capsys.readouterr().err
    assert line.startswith("opscope publish: --to: expected a SQLite or PostgreSQL URL, got `mysql`")
    assert "hunter2" not in line


def test_a_folder_of_another_schema_is_one_line(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (run_dir / "run.json").read_text().replace('"schema_version": 1', '"schema_version": 0')
    (run_dir / "run.json").write_text(text)
    with pytest.raises(SystemExit, match="2"):
        main(["publish", str(run_dir), "--to", f"sqlite:///{tmp_path}/x.sqlite"])
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "x.sqlite").exists()


def test_signature_reads_like_a_type(run_dir: Path) -> None:
    row = next(row for row in load_run(run_dir).rows if row.op_id == op_id(0))
    assert signature(row.inputs, row.outputs) == "f32[1,64], f32[] -> f32[1,64]"
