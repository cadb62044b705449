"""What publishing reads quickly is what the store reads, and a run that did not change is not written again."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from opscope.base import stored
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.store import load_attempts
from opscope.reports.database import rows
from opscope.reports.database.database import open_database
from opscope.reports.database.schema import RUNS
from opscope.reports.publish.publish import publish
from opscope.reports.records import publish_digest, quick_records
from opscope.reports.records.columns import plain
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.sample_run import make_run


def fields(value: object, kind: type[OpRow] | type[OpTest]) -> dict[str, object]:
    """A record as its columns are made from it; nested records as maps."""
    names = set(kind.model_fields) - quick_records.UNREAD
    return {name: _maps(plain(getattr(value, name))) for name in names}


def _maps(value: object) -> object:
    if isinstance(value, list):
        return [_maps(item) for item in value]
    names = getattr(value, "__struct_fields__", None)
    return {name: _maps(plain(getattr(value, name))) for name in names} if names else value


def test_every_field_is_what_the_store_reads(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    run, attempts = load_attempts(run_dir)
    header, ops = quick_records.manifest(run_dir)
    assert header == run.header
    assert [fields(op, OpRow) for op in ops] == [fields(row, OpRow) for row in run.rows]
    tests = [fields(test, OpTest) for test in quick_records.journal(run_dir)]
    assert tests == [fields(test, OpTest) for test in attempts]
    assert any("\\0" in str(test["error_message"]) for test in tests)  # a NUL, as its escape


def test_a_run_of_before_has_the_statuses_of_today(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "run")
    segment = next((run_dir / "journal").glob("*.jsonl"))
    lines = []
    for line in segment.read_bytes().splitlines():
        body = bytes(stored.unsealed(line, where=segment)).replace(b"wrong_result", b"golden_failed")
        flaky = body.replace(b'"outcomes":[]', b'"outcomes":["timeout at run","golden_failed at compare"]')
        lines.append(stored.sealed((flaky if b'"status":"timeout"' in body else body).decode()) + b"\n")
    segment.write_bytes(b"".join(lines))
    assert segment.read_bytes().count(b"golden_failed") == 2
    run, attempts = load_attempts(run_dir)
    tests = list(quick_records.journal(run_dir))
    assert [fields(test, OpTest) for test in tests] == [fields(test, OpTest) for test in attempts]
    assert [test.op_name for test in run.tests if test.status == "wrong_result"] == ["stablehlo.tanh"]
    assert {test.outcomes for test in run.tests} == {(), ("timeout at run", "wrong_result at compare")}
    url = f"sqlite:///{tmp_path}/db.sqlite"
    publish(run_dir, url)
    with open_database(url) as connection:
        stored_rows = connection.execute(sa.text("SELECT status, outcomes FROM op_tests")).all()
    assert "golden_failed" not in str(stored_rows)
    assert ["wrong_result" in str(row) for row in stored_rows].count(True) == 2


def _sealed(body: str) -> bytes:
    """A line with its digest, also if it is no JSON object any more."""
    return stored.sealed(body if body.startswith("{") else f"{{{body}")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"attempt":1', '"attempt":"one"', "attempt: Input should be a valid integer"),
        ('"attempt":1', '"attempt":1,"mood":3', "mood: Extra inputs are not permitted"),
        ('"status":"success"', '"status":"splendid"', "status: Input should be"),
        ('"shape":[1,64]', '"shape":"wide"', "inputs.0.shape: Input should be a valid tuple"),
        ('"schema_version":1', '"schema_version":2', "expected schema 1, got schema 2; try a newer opscope"),
        ("{", "{{", "invalid JSON"),
    ],
)
def test_a_line_that_is_no_record_is_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    run_dir = make_run(tmp_path / "run")
    journal = next((run_dir / "journal").iterdir())
    lines = journal.read_text().splitlines()
    body = stored.unsealed(lines[0].encode()).decode().replace(old, new, 1)
    journal.write_bytes(b"\n".join([_sealed(body), *(line.encode() for line in lines[1:]), b""]))
    with pytest.raises(InputError, match=f"{journal.name}:1: .*{expected}"):
        rows.read(run_dir)


def test_a_run_that_did_not_change_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir, url = make_run(tmp_path / "run"), fresh(tmp_path / "db.sqlite")
    counts = publish(run_dir, url)
    locked = f"sqlite:///file:{tmp_path}/db.sqlite?mode=ro&uri=true"
    assert publish(run_dir, locked) == counts
    monkeypatch.setattr(publish_digest, "_code", lambda: "other sources")
    with pytest.raises(InputError, match="readonly database"):
        publish(run_dir, locked)
    publish(run_dir, url)
    with open_database(url) as connection:
        published = connection.execute(sa.select(RUNS.c.published)).scalars().all()
    assert published == [{"digest": publish_digest.digest(run_dir), "rows": counts}]
