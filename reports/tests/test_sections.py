"""The page's sections on the last run and on what to fix: the same rows as the commands, and no markup of others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import altair
import pytest

from opscope.base.document.nodes import Causes
from opscope.harness.record.store import load_run
from opscope.reports.compare.diff import compare
from opscope.reports.compare.outcomes import from_folder
from opscope.reports.compare.readiness import views_of
from opscope.reports.compare.unblock import plan
from opscope.reports.pages.html import context, write_report
from opscope.reports.pages.sections import since_last
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh
from opscope.reports.tests.nights import Op, night
from opscope.reports.tests.sample_run import NASTY

EARLY = {"exp": Op(uses={"a": 1, "b": 2}), "log": Op("compile_failed"), "add": Op()}
LATE = {"exp": Op("run_failed", uses={"a": 1, "b": 2}, error=NASTY), "log": Op(), "add": Op()}


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, str]:
    url = fresh(tmp_path / "db.sqlite")
    publish(night(tmp_path, 1, EARLY), url)
    return night(tmp_path, 2, LATE), url


def test_the_page_shows_what_the_commands_print(place: tuple[Path, str], tmp_path: Path) -> None:
    run_dir, url = place
    view = from_folder(run_dir)
    diff = since_last(view, url)
    assert diff is not None
    assert diff.rows == compare(from_folder(tmp_path / "night01"), view).rows
    filled = context(load_run(run_dir), url)
    labels = [node for node in filled["changes"][0]["nodes"] if isinstance(node, Causes)]
    assert [(causes.title, [cause.count for cause in causes.causes]) for causes in labels] == [
        ("NEW", [1]),
        ("FIXED", [1]),
    ]
    assert filled["fixes"][0]["plan"] == plan(views_of(view))
    altair.Chart.from_dict(filled["charts"]["chart-unlock-0"])
    text = write_report(run_dir, url).read_text(encoding="utf-8")
    assert "Since the last comparable run" in text
    assert "NEW 1 FIXED 1 SAME 1" in re.sub(r"\s+", " ", text)
    assert "What to fix first" in text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    data = json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[0])
    assert data["charts"]["chart-unlock-0"]["data"]["values"][0]["whole"] == 1


def test_without_an_earlier_run_or_a_fault_there_is_no_section(tmp_path: Path) -> None:
    run_dir = night(tmp_path, 1, {"add": Op()})
    for url in (None, f"sqlite:///{tmp_path}/none.sqlite", "oracle://x"):
        text = write_report(run_dir, url).read_text(encoding="utf-8")
        assert "Since the last comparable run" not in text
        assert "What to fix first" not in text
    assert not (tmp_path / "none.sqlite").exists()
    url = fresh(tmp_path / "db.sqlite")
    publish(run_dir, url)  # the run itself, published again, is no earlier run
    assert since_last(from_folder(run_dir), url) is None
