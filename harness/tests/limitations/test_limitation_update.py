"""What a run says about the rows beside it, and the patch that makes them right again."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.cli.limitations import limitations
from opscope.harness.limitations import limitation_notes
from opscope.harness.limitations.limitation_file import OWN, parse
from opscope.harness.limitations.limitation_update import block
from opscope.harness.limitations.limitations import judged
from opscope.harness.record import store
from opscope.harness.record.records import OpTest, RunRecord
from opscope.harness.record.stages import Stage, Status
from opscope.harness.tests.run_folder import START, record_of, row, write

ADD, DOT = "aaaa000000000001", "bbbb000000000002"
FILE = f"""\
limitations:
# passes by now
- {{op: stablehlo.add, backend: 'null', stage: compile, kind: notyet, reason: old}}
- op: ["stablehlo.add", "*dot_general"]
  op_ids: [{ADD}, {DOT}]
  backend: 'null'
  stage: compile
  kind: notyet
  reason: no dots
- {{op: chlo.sinh, backend: 'null', stage: compile, kind: notyet, reason: gone}}
- {{op: "*", backend: 'null', arch: p150, stage: compile, kind: notyet, reason: other board}}
- {{op: "*", backend: xla, stage: run, kind: notyet, reason: other backend}}
"""


def night(folder: Path, rows: str = "", **run: object) -> Path:
    """A run whose `add` passed and whose `dot_general` was refused, judged by `rows`."""
    write(folder, tests=False)
    record = store.read_run(folder)
    origin = record.origin.model_copy(update={"options": {**record.origin.options, **run}})
    store.write_run(folder, RunRecord(**{**dict(record), "origin": origin, "outcome": "complete"}))
    known = parse(rows, folder).rows if rows else ()
    with store.Journal(folder, "main") as journal:
        for test in (
            record_of(folder, ADD, Status.SUCCESS, 2, stage_reached=Stage.COMPARE),
            record_of(folder, DOT, Status.COMPILE_FAILED, failed_stage=Stage.COMPILE, error="no [dots] here"),
        ):
            journal.append(judged(test, known, START.date())[0])
    return folder


def call(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(limitations, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit | ValueError), done.exception
    return done.exit_code, str(done.exception) if isinstance(done.exception, ValueError) else done.output


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_update_writes_a_row_that_then_excuses(place: Path) -> None:
    run = night(place / "run")
    code, out = call("update", run)
    assert code == 0
    assert not (place / "limitations.yaml").exists(), "without --write nothing is written"
    assert "--- /dev/null\n+++ limitations.yaml" in out
    assert f"+  op_ids: [{DOT}]" in out
    assert "1 new row, 0 removed, 0 narrowed; use --write to change the files" in out
    code, out = call(
        "update", run, "--write", "--kind", "notimpl", "--expires", "2030-01-01", "--link", "https://e.org/1"
    )
    assert "[tool.opscope] limitations" in out
    (new,) = parse((place / "limitations.yaml").read_text(), place).rows
    assert (new.kind, new.expires, new.link, new.arch) == ("notimpl", date(2030, 1, 1), "https://e.org/1", "*")
    test = store.load_run(run).tests[1]
    assert new.signature == test.error_signature
    assert judged(test, [new])[1].outcome == "xfail"
    assert "0 new rows, 0 removed" in call("update", run, "--limitations", "limitations.yaml")[1]


def test_update_takes_out_what_no_longer_holds(place: Path) -> None:
    (place / "l.yaml").write_text(FILE)
    run = night(place / "run", FILE)
    code, out = call("update", run, "--limitations", "l.yaml", "--write")
    assert (code, "0 new rows, 1 removed, 1 narrowed" in out) == (0, True), out
    rows = parse((place / "l.yaml").read_text(), place).rows
    assert [r.reason for r in rows] == ["no dots", "gone", "other board", "other backend"]
    assert rows[0].op_ids == (DOT,)
    assert "# passes by now" in (place / "l.yaml").read_text(), "comments stay"


def test_a_changed_reason_gets_another_row_and_a_flaky_failure_none(place: Path) -> None:
    other = "limitations:\n- {op: '*dot*', backend: 'null', stage: run, kind: notyet, reason: x}\n"
    (place / "l.yaml").write_text(other)
    run = night(place / "run", other)
    assert "1 new row, 1 removed" in call("update", run, "--limitations", "l.yaml")[1]
    with store.Journal(run, "later") as journal:
        failed = store.load_run(run).tests[1]
        journal.append(failed.model_copy(update={"attempt": 2, "flaky": True, "stability": "flaky"}))
    out = call("update", run, "--limitations", "l.yaml")[1]
    assert "0 new rows" in out
    assert f"[{DOT}] gets no row because it is flaky" in out


def test_check_holds_rows_against_a_run(place: Path) -> None:
    expired = FILE + "- {op: x, backend: xla, stage: run, kind: notyet, reason: r, expires: 2026-01-01}\n"
    (place / "l.yaml").write_text(expired)
    code, out = call("check", night(place / "run", FILE), "--limitations", "l.yaml")
    assert code == 1
    for line in (
        "l.yaml:13: expired on 2026-01-01; renew or delete it",
        "l.yaml:10: expected an op that `chlo.sinh` names on null, got none of 2; try deleting the row",
        "l.yaml:3: of the 1 op that this row names, 1 pass; try opscope limitations update",
        "l.yaml:4: of the 2 ops that this row names, 1 pass",
    ):
        assert line in out, out
    assert "p150" not in out
    assert call("check")[0] == 0


def test_list_for_people_and_programs(place: Path) -> None:
    (place / "l.yaml").write_text(FILE)
    code, out = call("list", "--limitations", "l.yaml", "--backend", "null")
    assert (code, out.splitlines()[-1]) == (0, "4 rows")
    assert f"of {ADD}, {DOT}" in out
    rows = json.loads(call("list", "--json")[1])
    assert {each["backend"] for each in rows} == {"buda", "reference"}
    assert rows[0]["since"] == "2026-08-01"


@pytest.mark.parametrize("words", [("update", "nowhere"), ("check", "nowhere"), ("list", "--limitations", "nowhere")])
def test_bad_places_are_one_line(place: Path, words: tuple[str, ...]) -> None:
    code, out = call(*words)
    assert code != 0
    assert ": expected " in out
    assert "soon" in call("update", night(place / "run"), "--expires", "soon")[1]


def test_notes_of_a_page(place: Path) -> None:
    old = "- {op: '*dot*', backend: 'null', stage: compile, kind: notyet, reason: r, expires: 2026-01-01}\n"
    rows = parse(FILE + old, place / "l.yaml").rows
    part, full = (
        store.load_run(night(place / name, FILE, models=[model])) for name, model in (("a", "m"), ("b", "all"))
    )
    late = f"{place}/l.yaml:13: limitation expired on 2026-01-01, still excuses"
    absent = f"{place}/l.yaml:10: expected an op that `chlo.sinh` names on null, got none of 2; try "
    notes = limitation_notes.notes(part, rows, date(2026, 1, 3))
    assert [notes[0][: len(late)], notes[1][: len(absent)], len(notes)] == [late, absent, 2]
    assert "1 failure until 2026-01-15" in limitation_notes.notes(part, rows, date(2026, 1, 3))[0]
    assert "excuses nothing" in limitation_notes.notes(part, rows, date(2026, 2, 1))[0]
    (line,) = limitation_notes.notes(part, rows, date(2025, 1, 1))
    assert line == f"{absent}the spelling, or opscope limitations check RUN_DIR"
    (line,) = limitation_notes.notes(full, rows, date(2025, 1, 1))
    assert line == f"{absent}deleting the row"


def test_rows_without_an_op_are_one_line_where_not_all_models_ran(place: Path) -> None:
    misspelt = [f"- {{op: stablehlo.ad{n}, backend: 'null', stage: compile, kind: notyet, reason: r}}" for n in "xyz"]
    run = store.load_run(night(place / "part", models=["m"]))
    rows = parse("\n".join(["limitations:", *misspelt]), place / "l.yaml").rows
    (line,) = limitation_notes.notes(run, rows)
    assert f"{place}/l.yaml:2: expected an op that `stablehlo.adx` names on null, got none of 2" in line
    assert "(more such rows: 2); try" in line
    ours = [replace(row, where=row.where.replace(f"{place}/l.yaml", str(OWN))) for row in rows]
    assert limitation_notes.notes(run, ours) == [], "the project's rows speak of all its models"


def test_a_row_of_an_op_that_was_not_tried_names_something(place: Path) -> None:
    run = store.load_run(night(place / "part", models=["all"]))
    dot = f"- {{op: '*', op_ids: [{DOT}], backend: 'null', stage: compile, kind: notyet, reason: r}}"
    rows = parse(f"limitations:\n{dot}", place / "l.yaml").rows
    elsewhere = [test.model_copy(update={"status": Status.SKIPPED}) for test in run.tests]
    assert limitation_notes.notes(run._replace(tests=elsewhere), rows) == []
    assert limitation_notes.notes(run._replace(tests=elsewhere[:1]), rows), "the op is not in the run"


def test_a_row_survives_being_written(place: Path) -> None:
    (first, *_) = parse(FILE, place).rows
    for each in parse(FILE, place).rows:
        assert parse("limitations:\n" + block(each), place).rows == (each,)
    assert isinstance(record_of(place, ADD, Status.SUCCESS), OpTest)
    assert first.names(row(ADD), "null")
