"""Notes about causes: shown wherever the cause is, no alarm until their date, one again after it, and never markup."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opscope.harness.cli.main import root as opscope
from opscope.harness.record.causes import short
from opscope.harness.record.errors import InputError
from opscope.reports.compare.diff import Diff, compare
from opscope.reports.compare.night_diff import compared_nights
from opscope.reports.compare.night_views import night_view
from opscope.reports.compare.outcomes import from_folder
from opscope.reports.compare.owned import EVERYBODY
from opscope.reports.database.ask import ask
from opscope.reports.database.database import open_database
from opscope.reports.database.notes import note_of, write_note
from opscope.reports.database.reading import read_database
from opscope.reports.nightly import gate, markdown
from opscope.reports.nightly.config import POLICY
from opscope.reports.nightly.delivery import Delivered
from opscope.reports.nightly.findings import from_database
from opscope.reports.nightly.sweeps import Sweep
from opscope.reports.nightly.verdict import verdict_of
from opscope.reports.pages.night_page import render_night
from opscope.reports.publish.sentences import renew_newest
from opscope.reports.tests import postgres_server
from opscope.reports.tests.night_runs import copy_of, fresh, publish_night, record, shard_run
from opscope.reports.tests.nights import Op

RIGHT = {"add": Op(uses={"a": 1}), "exp": Op(uses={"b": 1})}
WRONG = {"add": Op(uses={"a": 1}), "exp": Op("compile_failed", uses={"b": 1}, error="no lowering for an odd shape")}
SERIES = "reference n150 float32 0"
MARKUP = "waits for <b>1.3</b> | [it](http://x) @all"
IN_HTML = "waits for &lt;b&gt;1.3&lt;/b&gt; | [it](http://x) @all"


def fill(url: str, folder: Path) -> str:
    """Two nights, in the second of which an op fails; the url."""
    publish_night(url, folder, 1, RIGHT)
    publish_night(url, folder, 2, WRONG)
    return url


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("notes")
    return fill(fresh(folder / "db.sqlite"), folder)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, nights: str, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return copy_of(nights, tmp_path / "db.sqlite")
    return fill(postgres_server.shared().database(), tmp_path)


def call(url: str, *words: str) -> Result:
    return CliRunner().invoke(opscope, [*words, "--db", url], env={"COLUMNS": "200"})


def cause_of_night(url: str) -> str:
    (answer,) = ask(url, "SELECT DISTINCT cluster FROM night_fixes").rows
    return str(answer[0])


def noted(url: str, text: str, until: date | None, now: datetime | None = None) -> None:
    """A note as it was written at some time."""
    with open_database(url) as connection:
        write_note(connection, note_of(cause_of_night(url), text, "ann", until, now))
        renew_newest(connection)


def diff_of(url: str) -> Diff:
    with read_database(url) as connection:
        (diff,) = compared_nights(connection, None, None)
    return diff


TAKES = "; it takes the place of the note of ann: looked at\n"


def test_a_note_is_written_listed_replaced_and_removed(url: str) -> None:
    cause = cause_of_night(url)
    assert call(url, "note", cause[:5], "looked at", "--by", "ann").output == f"cause {short(cause)}, by ann\n"
    assert "ann" in call(url, "note", "--list").output
    later = call(url, "note", cause, MARKUP, "--by", "bob", "--until", "2999-12-31")
    assert later.output == f"cause {short(cause)}, by bob; nights up to 2999-12-31 do not alarm for it" + TAKES
    (note,) = json.loads(call(url, "note", "--list", "--json").output)
    assert (note["cause"], note["author"], note["until"], note["text"]) == (cause, "bob", "2999-12-31", MARKUP)
    assert datetime.fromisoformat(note["written"]) <= datetime.now(UTC).replace(tzinfo=None)
    assert call(url, "note", "--remove", cause[:8]).output == f"cause {short(cause)} has no note any more\n"
    assert json.loads(call(url, "note", "--list", "--json").output) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "opscope note: expected CAUSE and TEXT, --list or --remove CAUSE, got nothing; try opscope note --list"),
        (("CAUSE",), "opscope note: expected CAUSE and TEXT, --list or --remove CAUSE, got no TEXT"),
        (
            ("CAUSE", "x", "--list"),
            "opscope note: expected CAUSE and TEXT, --list or --remove CAUSE, got CAUSE and --l",
        ),
        (("0000", "x"), "CAUSE: expected the id of a cause, or its beginning, got `0000`"),
        (("CAUSE", "x" * 501), "TEXT: expected 1 to 500 characters, got 501; try a sentence, and a link to the rest"),
        (("CAUSE", " \n "), "TEXT: expected 1 to 500 characters, got 0"),
        (("CAUSE", "x", "--by", "n" * 81), "--by: expected 1 to 80 characters, got 81"),
        (
            ("CAUSE", "x", "--until", "2026-01-01"),
            "--until: expected today or a later day, got 2026-01-01; try opscope",
        ),
        (("--remove", "0000"), "--remove: expected the id of a cause, or its beginning, got `0000`"),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, tuple) else "",
)
def test_a_note_that_cannot_be_is_one_line(nights: str, words: tuple[str, ...], problem: str) -> None:
    answer = call(nights, "note", *(cause_of_night(nights) if word == "CAUSE" else word for word in words))
    assert isinstance(answer.exception, InputError)
    assert str(answer.exception).startswith(problem)
    assert "\n" not in str(answer.exception)


@pytest.mark.slow
def test_it_stands_wherever_the_cause_is(url: str, tmp_path: Path) -> None:
    noted(url, f"{MARKUP}\n\x1b[31m", None)
    cause, line = short(cause_of_night(url)), f"{MARKUP} \\u001b[31m"
    for words in (("diff",), ("show", cause), ("show", "b"), ("unblock",), ("readiness", "b")):
        assert f"note: ann, {datetime.now(UTC):%Y}" in call(url, *words).output, words
        assert line in call(url, *words).output, words
    answer = json.loads(call(url, "diff", "--json").output)
    (row,) = [row for row in answer["series"][0]["rows"] if row["cluster"]]
    assert line in row["remark"]
    assert not row["acknowledged"]
    assert json.loads(call(url, "show", cause, "--json").output)["notes"][0]["author"] == "ann"
    for view in ("night_diff", "night_clusters", "night_grid", "dashboard_changes", "dashboard_fixes"):
        assert line in ask(url, f"SELECT remark FROM {view} WHERE remark <> ''").rows[0][0], view
    night_id = record(2).night_id
    with read_database(url) as connection:
        page = render_night(connection, [night_id], tmp_path, tmp_path / "report.html", EVERYBODY)
    assert page.count(IN_HTML) >= 2, "among the causes, in the table of changes"
    assert "<b>1.3</b>" not in page
    assert f"opscope note {cause} " in page, "the command that writes another"
    results = from_database(url, night_id)
    text = markdown.text(markdown.Page("night", results, verdict_of(results, Delivered(url), POLICY)))
    assert "note: ann, " in text
    assert "&lt;b&gt;1.3&lt;/b&gt;" in text
    assert "\\[it\\](http:&#8203;//x)" in text
    assert "@all" not in text


def test_an_acknowledged_cause_does_not_alarm_until_its_date(url: str, tmp_path: Path) -> None:
    """Neither a night nor `diff --check`, a gate or the dashboards' alert; what they say is that it is there."""
    night_id = record(2).night_id
    alert = "SELECT verdict, new_failures FROM dashboard_verdict WHERE one_series = 0"
    news = f"SELECT SUM(news), MAX(acknowledged) FROM night_diff WHERE night_id = '{night_id}'"
    assert (ask(url, alert).rows, ask(url, news).rows[0][0]) == ((("worse", 1),), 1)
    assert call(url, "diff", "--check").exit_code == 1
    noted(url, MARKUP, date(2026, 11, 3), datetime(2026, 11, 2, 9, tzinfo=UTC))  # the night of that date is the last
    assert (ask(url, alert).rows, ask(url, news).rows[0]) == ((("as before", 0),), (0, 1))
    checked = call(url, "diff", "--check")
    assert (checked.exit_code, "1 acknowledged: exp" in checked.output.splitlines()[0]) == (0, True)
    results = from_database(url, night_id)
    verdict = verdict_of(results, Delivered(url), POLICY | {"failure": "fail"})
    assert (verdict.fails, verdict.changed) == (False, False)
    (problem,) = verdict.problems
    assert problem.text.startswith(f"1 op is worse, cause {short(cause_of_night(url))}: ann, 2026-11-02 09:00 UTC, ")
    assert "acknowledged until 2026-11-03" in problem.text
    assert "acknowledged until 2026-11-03" in markdown.text(markdown.Page("night", results, verdict))
    gated = shard_run(tmp_path, record(1), 2, WRONG)
    with read_database(url) as connection:
        before = night_view(connection, record(1).night_id, SERIES)
    sweep = Sweep("reference", "n150", "", 0, 0)
    for run_dir, fails in ((gated, False), (shard_run(tmp_path, record(3), 3, WRONG), True)):
        diff = compare(before, from_folder(run_dir))
        answer = gate._gate_of(
            [gate.SweepComparison(sweep, run_dir, before, diff, True, "")], "night", tmp_path, tmp_path
        )
        assert answer.verdict.fails is fails, "the run after the date fails the gate"
        assert ("1 acknowledged cause" in answer.title) is not fails


def test_an_acknowledged_cause_comes_after_the_others(tmp_path: Path) -> None:
    """Though it blocks the most models and uses; in a run folder as in the database that has the note."""
    ops = {**WRONG, "tanh": Op("compile_failed", uses={"b": 9, "c": 1}, error="another message of tanh")}
    url = fresh(tmp_path / "db.sqlite")
    night_id = publish_night(url, tmp_path / "1", 2, ops)
    [run_dir] = (tmp_path / "1").iterdir()
    for which in (("unblock",), ("unblock", night_id), ("unblock", str(run_dir))):
        first = _fixes(call(url, *which, "--json").output)[0]
        assert (first["op_names"], first["remark"]) == (["stablehlo.tanh"], ""), "the most models and uses"
    with open_database(url) as connection:
        write_note(connection, note_of(first["cluster"], "waits", "ann", date(2099, 1, 1), None))
    for which in (("unblock",), ("unblock", night_id), ("unblock", str(run_dir))):
        fixes = _fixes(call(url, *which, "--json").output)
        assert [fix["acknowledged"] for fix in fixes] == [False, True], which
        assert fixes[1]["remark"].endswith("acknowledged until 2099-01-01: waits")
        assert f"cause {short(first['cluster'])}, note: ann, " in call(url, *which).output
    for which in ((), ("--run", str(run_dir))):
        rows = json.loads(call(url, "readiness", "b", *which, "--json").output)["missing"]
        assert [(row["op_name"], row["acknowledged"]) for row in rows] == [
            ("stablehlo.exp", False),
            ("stablehlo.tanh", True),
        ]
        shown = call(url, "readiness", "b", *which).output
        assert shown.index("stablehlo.exp ") < shown.index("stablehlo.tanh") < shown.index("9 uses")


def _fixes(output: str) -> list[dict[str, Any]]:
    answer = json.loads(output)
    [plan] = answer.get("series", [answer])
    return plan["fixes"]


def test_after_its_date_it_alarms_again_and_says_so(url: str, tmp_path: Path) -> None:
    noted(url, "fixed soon", date(2026, 11, 3), datetime(2026, 11, 2, 9, tzinfo=UTC))
    publish_night(url, tmp_path, 3, RIGHT)
    publish_night(url, tmp_path, 4, WRONG)
    assert call(url, "diff", "--check").exit_code == 1
    (row,) = [row for row in diff_of(url).rows if row.cluster]
    over = "acknowledged until 2026-11-03, and alarms again: ann, 2026-11-02 09:00 UTC: fixed soon"
    assert (row.remark, row.news, row.acknowledged) == (over, True, False)
    results = from_database(url, record(4).night_id)
    verdict = verdict_of(results, Delivered(url), POLICY)
    assert verdict.fails
    assert over in markdown.text(markdown.Page("night", results, verdict))
    sentence = ask(url, "SELECT verdict, sentence FROM dashboard_verdict WHERE one_series = 0").rows[0]
    assert sentence[0] == "worse"
    assert sentence[1] == "1 new failure, 1 cause: start with exp (1 model)"
