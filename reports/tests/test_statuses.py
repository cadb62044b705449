"""Code, SQL and pages take statuses, stages and labels from one table (opscope/base/statuses.py)."""

from __future__ import annotations

import re
from pathlib import Path

from opscope.base import statuses
from opscope.harness.record.stages import FAILED, Stage, Status
from opscope.reports.compare.diff import Label
from opscope.reports.database.database import views
from opscope.reports.pages import charts

HERE = Path(__file__).parent.parent
QUERIES = {path.stem: path.read_text(encoding="utf-8") for path in (HERE / "queries").glob("*.sql")}


def test_the_table_has_every_status_stage_and_label() -> None:
    assert set(statuses.STATUSES) == {*map(str, Status), "unsplittable"}
    assert {*map(str, FAILED), "unsplittable"} == statuses.FAILED
    assert set(statuses.STAGES) == {*map(str, Stage), statuses.NOT_RUN}
    assert set(statuses.LABELS) == {*map(str, Label), "FIRST"}


def test_lists_of_statuses_in_sql_are_whole() -> None:
    lists = {
        (name, frozenset(re.findall(r"'(\w+)'", found)))
        for name, text in {**views(), **QUERIES}.items()
        for found in re.findall(r"status (?:NOT )?IN (\([^)]*\))", text)
    }
    assert len(lists) > 8
    asked_for_by_name = {("not_compiling", frozenset({"compile_failed", "unsplittable"}))}
    allowed = (statuses.NOT_ATTEMPTED, statuses.NOT_ATTEMPTED | {"success"}, statuses.FAILED - {"unsplittable"})
    assert [(name, words) for name, words in lists - asked_for_by_name if words not in allowed] == []


def test_dashboards_number_stages_as_the_table_does() -> None:
    for view in ("dashboard_ops", "dashboard_counts"):
        numbered = dict(re.findall(r"WHEN '([\w-]+)' THEN '(\d) \1'", views()[view]))
        numbered_there = {stage: str(step) for stage, (step, _) in statuses.STAGES.items() if stage != statuses.NOT_RUN}
        assert {stage: numbered.get(stage, "5") for stage in numbered_there} == numbered_there
        assert "ELSE '5 ' ||" in views()[view]


def test_the_report_has_the_colours_of_the_table() -> None:
    assert charts.status_colours() == {status: word.colour for status, word in statuses.STATUSES.items()}
    assert charts.stage_colours(["run", "link"]) == {"run": statuses.STAGES["run"][1], "link": statuses.OTHER_STAGE}
