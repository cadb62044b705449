"""Code, SQL and pages take statuses, stages and labels from one table (opscope/base/statuses.py)."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from opscope.base import statuses
from opscope.base.labels import LABELS, Label
from opscope.harness.record.ledger import ledger
from opscope.harness.record.stages import FAILED, WENT_THROUGH, Stage, Status
from opscope.harness.record.store import load_run
from opscope.reports.compare import unblock
from opscope.reports.compare.diff import compare
from opscope.reports.compare.outcomes import from_folder
from opscope.reports.compare.run_selection import Runs
from opscope.reports.database.ask import questions
from opscope.reports.database.database import open_database, views
from opscope.reports.exports import export_csv, export_junit, export_optest
from opscope.reports.exports.exported import read
from opscope.reports.pages import charts
from opscope.reports.publish.publish import publish
from opscope.reports.tests.nights import Op, night, op_id

HERE = Path(__file__).parent.parent
QUERIES = {name: question.sql for name, question in questions().items()}


def test_the_table_has_every_status_stage_and_label() -> None:
    assert set(statuses.STATUSES) == {*map(str, Status), "unsplittable", statuses.PASSED}
    assert {*map(str, FAILED), "unsplittable"} == statuses.FAILED
    assert set(statuses.STAGES) == {*map(str, Stage), statuses.NOT_RUN}
    assert set(LABELS) == set(Label)


def test_no_sql_lists_statuses_or_labels_by_hand() -> None:
    """Views and stored questions take lists, limits and labels from the tables of opscope/base."""
    words = {*statuses.STATUSES, *map(str, Label)}
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (HERE / "database").glob("*/*.sql")}
    by_hand = {
        (name, found)
        for name, text in texts.items()
        for found in re.findall(r"IN (\([^()]*\))", text)
        if words & set(re.findall(r"'([\w-]+)'", found))
    }
    assert by_hand == {("not_compiling", "('compile_failed', 'unsplittable')")}, "which asks for these two"
    assert [name for name, text in {**views(), **QUERIES}.items() if re.search(r"\{(?!tomorrow)[A-Za-z]", text)] == []
    assert len(texts) > 50


def test_dashboards_number_stages_as_the_table_does() -> None:
    for view in ("dashboard_ops", "dashboard_counts"):
        numbered = dict(re.findall(r"WHEN '([\w-]+)' THEN '(\d) \1'", views()[view]))
        assert numbered == {
            stage: str(step)
            for stage, (step, _) in statuses.STAGES.items()
            if stage != statuses.NOT_RUN and step is not None
        }
        assert re.findall(r"THEN '(\d) '|ELSE '(\d) '", views()[view]) == [
            ("4", ""),
            ("5", ""),
            ("6", ""),
            ("", "7"),
        ], "those of OWN_STEPS"


def test_the_report_has_the_colours_of_the_table() -> None:
    assert charts.status_colours() == {status: word.colour for status, word in statuses.STATUSES.items()}
    assert charts.stage_colours(["run", "link"]) == {"run": statuses.STAGES["run"][1], "link": statuses.OTHER_STAGE}


def test_every_consumer_of_statuses_does_what_the_table_says(tmp_path: Path) -> None:
    assert set(statuses.EFFECTS) == set(statuses.STATUSES)
    before = night(tmp_path, 0, {status: Op(uses={status: 1}) for status in statuses.EFFECTS})
    after = night(tmp_path, 1, {status: Op(status, uses={status: 1}, error="so") for status in statuses.EFFECTS})
    run, exported = load_run(after), read(Runs(None, tmp_path), str(after))
    views_of_runs = from_folder(before), from_folder(after)
    labels = {row.op_name.partition(".")[2]: row for row in compare(*views_of_runs).rows}
    plan = unblock.plan(dict.fromkeys(statuses.EFFECTS, views_of_runs[1]))
    blocked = {model for fix in plan.fixes for model in fix.models}
    cases = {
        case.get("classname"): {child.tag for child in case} & {"failure", "error", "skipped"}
        for case in Xml.fromstring(export_junit.render(exported)).iter("testcase")
    }
    table = export_csv.table(exported)
    lines = {row[table.columns.index("op_id")]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    records = {test.op_id: export_optest.record(test, "m", exported, 1) for test in run.tests}
    by_status = ledger(run.header, run.rows, run.tests).by_status
    for status, effect in statuses.EFFECTS.items():
        row = labels[status]
        assert (row.label, row.news) == (effect.diff, effect.gate == "fails"), status
        unblocked = "blocks its models" if status in blocked else "not attempted" if status in plan.unknown else "right"
        assert unblocked == effect.unblock, status
        assert cases[status] == {effect.junit} - {"passed"}, status
        if status == "unsplittable":  # no test, no record
            continue
        test = next(test for test in run.tests if test.op_id == op_id(status))
        assert test.fails_run == bool(effect.exit_code), status
        assert test.status == status
        assert by_status[test.status] == 1, status
        assert str(lines[op_id(status)]["is_failure"]) == effect.csv == str(test.fails_run), status
        record = records[op_id(status)]
        assert (record["success"], record["skipped"]) == (str(effect.junit == "passed"), str(effect.junit == "skipped"))
    url = f"sqlite:///{tmp_path}/db.sqlite"
    publish(after, url)
    with open_database(url) as connection:
        attempted = connection.exec_driver_sql("SELECT status, attempted, bad FROM night_ops").all()
    assert {(status, bool(tried), bool(bad)) for status, tried, bad in attempted} == {
        (status, word.tone != "idle", word.tone == "bad")
        for status, word in statuses.STATUSES.items()
        if status != "unsplittable"
    }


def test_what_went_through_is_not_known_to_be_wrong() -> None:
    assert not WENT_THROUGH & (FAILED - {Status.NO_GOLDEN})


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG 2.2 defines it; for texts it asks for 4.5."""

    def light(colour: str) -> float:
        parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    lights = sorted((light(one), light(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@pytest.mark.parametrize("status", statuses.STATUSES)
def test_a_word_can_be_read_on_its_colour(status: str) -> None:
    word = statuses.STATUSES[status]
    assert contrast(word.colour, word.text) >= 4.5


@pytest.mark.parametrize("theme", [":root", ':root[data-theme="dark"]'])
def test_the_colours_of_the_report_can_be_read(theme: str) -> None:
    style = (HERE / "pages" / "assets" / "report.css").read_text(encoding="utf-8")
    rule = style[style.index(f"{theme} {{") :].partition("}")[0]
    colours = dict(re.findall(r"--(\w+): (#\w{6})", rule))
    for text in ("text", "soft", "good", "bad", "known", "link"):
        for back in ("back", "card", "head"):
            assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
