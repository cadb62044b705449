"""Runs in which only some ops were selected: they do not take the place of what is known of their models."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from opscope.harness.record.errors import InputError
from opscope.harness.record.selection import DESELECTED
from opscope.harness.record.store import SELECTION_FILE, write_json
from opscope.reports.commands.compare import diff, readiness, unblock
from opscope.reports.compare.history import compared
from opscope.reports.compare.night_diff import newest_night
from opscope.reports.compare.owned import Owned
from opscope.reports.compare.readiness import newest_views
from opscope.reports.compare.run_selection import Runs, open_runs
from opscope.reports.database.reading import read_database
from opscope.reports.pages.night_page import render_night
from opscope.reports.publish.publish import publish
from opscope.reports.publish.upkeep import prune
from opscope.reports.tests.night_runs import copied, fresh, publish_night, rows
from opscope.reports.tests.nights import START, Op, night

OUT = Op("skipped", more={"error_message": DESELECTED})
BROKEN = Op("compile_failed", error="no exp")
WHOLE = {"add": Op(), "exp": BROKEN}
SELECTED = {"add": Op(), "exp": OUT}
COUNTED = "SELECT night_id FROM night_series ORDER BY night_id"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two whole runs of `m`, then one in which `exp` was deselected."""
    folder = tmp_path_factory.mktemp("selections")
    url = fresh(folder / "db.sqlite")
    for number, ops in ((1, WHOLE), (2, WHOLE), (3, SELECTED)):
        publish(night(folder, number, ops), url)
    return folder


@pytest.fixture
def url(built: Path, tmp_path: Path) -> str:
    return copied(built, tmp_path)


def said(command: object, *args: str) -> str:
    result = CliRunner().invoke(command, args)  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    return result.output


def test_commands_keep_to_the_last_run_of_all_ops_and_name_what_they_left_out(url: str) -> None:
    line = "left out: run night03, because only some ops were selected (--ops, -k)"
    ready = said(readiness, "m", "--db", url)
    assert "run night02" in ready
    assert "2 unique ops = 1 right + 1 missing + 0 not attempted" in ready
    assert line in ready
    fixes = said(unblock, "--db", url)
    assert line in fixes
    assert "no exp" in fixes
    assert "not attempted" not in fixes
    changes = said(diff, "--db", url)
    assert "PERSISTING 1  SAME 1" in changes
    assert "NEVER-RUN" not in changes
    assert line in changes
    assert json.loads(said(readiness, "m", "--db", url, "--json"))["left_out"] == ["night03"]
    assert json.loads(said(unblock, "--db", url, "--json"))["left_out"] == ["night03"]


def test_a_comparison_names_only_what_it_left_out_of_its_own_series_and_after_its_last_run(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    for number, ops, arch in ((1, WHOLE, "n150"), (2, SELECTED, "n150"), (3, WHOLE, "n150"), (4, SELECTED, "p150")):
        publish(night(tmp_path, number, ops, arch=arch), url)
    changes = said(diff, "--db", url)
    assert "PERSISTING 1  SAME 1" in changes
    assert "left out" not in changes


def test_a_run_that_is_named_is_shown_as_it_is(url: str) -> None:
    ready = said(readiness, "m", "--run", "night03", "--db", url)
    assert "2 unique ops = 1 right + 0 missing + 1 not attempted" in ready
    assert "1 of 2 ops were deselected in this run" in ready
    assert "left out" not in ready
    changes = said(diff, "night02", "night03", "--db", url)
    assert "NEVER-RUN 1  SAME 1" in changes
    assert "1 of 2 ops were deselected in the later run" in changes


def test_what_dashboards_read_keeps_to_it_too(url: str) -> None:
    assert rows(url, "SELECT night_id, kind FROM nights ORDER BY night_id") == [
        ("night01", "run"),
        ("night02", "run"),
        ("night03", "selection"),
    ]
    assert rows(url, COUNTED) == [("night01",), ("night02",)]
    newest = [("night02", "compile_failed", 1), ("night02", "success", 1)]
    assert rows(url, "SELECT night_id, status, attempted FROM newest_ops ORDER BY status") == newest
    assert rows(url, "SELECT night_id, right_ops, bad_ops FROM dashboard_models WHERE newest = 1") == [
        ("night02", 1, 1)
    ]
    # The op that did run keeps its place in the op's own history.
    assert rows(url, "SELECT COUNT(*) FROM night_ops WHERE op_name = 'stablehlo.add'") == [(3,)]


def test_the_next_whole_run_is_compared_with_the_last_whole_one(url: str, tmp_path: Path) -> None:
    publish(night(tmp_path, 4, {"add": Op(), "exp": Op()}), url)
    assert rows(url, "SELECT previous_night FROM night_series WHERE night_id = 'night04'") == [("night02",)]
    changes = said(diff, "--db", url)
    assert "FIXED 1" in changes
    assert "left out" not in changes  # a whole run is newer


def test_the_order_of_publishing_makes_no_difference(url: str, tmp_path: Path) -> None:
    other = fresh(tmp_path / "other.sqlite")
    publish(tmp_path / "night03", other)
    assert rows(other, COUNTED) == [("night03",)]
    for number in (2, 1):
        publish(tmp_path / f"night{number:02}", other)
    everything = "SELECT * FROM night_models ORDER BY night_id, model"
    assert rows(other, everything) == rows(url, everything)
    assert rows(other, COUNTED) == rows(url, COUNTED)


def test_where_no_run_tried_a_model_whole_a_selection_is_what_is_known(tmp_path: Path) -> None:
    """Neither another model's run nor one with other options stands in for it."""
    url = fresh(tmp_path / "db.sqlite")
    publish(night(tmp_path, 1, {"add": Op(uses={"n": 1})}), url)
    publish(night(tmp_path, 2, WHOLE, arch="p150"), url)
    publish(night(tmp_path, 3, SELECTED), url)
    assert rows(url, COUNTED)[-1] == ("night03",)
    ready = said(readiness, "m", "--db", url)
    assert "2 unique ops = 1 right + 0 missing + 1 not attempted" in ready
    assert "1 of 2 ops were deselected in this run" in ready


def test_a_selection_counts_again_when_the_whole_runs_before_it_are_pruned(url: str) -> None:
    now = datetime.combine(START, START.time(), UTC) + timedelta(days=10)
    prune(url, timedelta(days=7.5), now=now)
    assert rows(url, COUNTED) == [("night03",)]


def test_publishing_again_adds_the_kind_of_a_run_that_was_stored_without(url: str, tmp_path: Path) -> None:
    with sa.create_engine(url).begin() as connection:
        connection.execute(sa.text("UPDATE nights SET kind = 'run'"))
        connection.execute(sa.text("UPDATE runs SET published = NULL"))
    publish(tmp_path / "night03", url)
    assert rows(url, "SELECT kind FROM nights WHERE night_id = 'night03'") == [("selection",)]
    assert rows(url, COUNTED) == [("night01",), ("night02",)]


def test_a_selection_does_not_hide_the_newest_night(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    night_id = publish_night(url, tmp_path, 1, WHOLE, models=("m",))
    publish(night(tmp_path, 2, SELECTED), url)
    with open_runs(url) as runs:
        assert runs.connection is not None
        assert newest_night(runs.connection) == night_id
        assert [run.run_id for run in runs.left_out()] == ["night02"]


def test_folders_without_a_database_are_told_apart_as_well(tmp_path: Path) -> None:
    """`--op` writes the file of selected ops beside a whole run too, so the records decide."""
    for number, ops in ((1, WHOLE), (2, SELECTED)):
        write_json(night(tmp_path, number, ops) / SELECTION_FILE, {"ops": []})
    runs = Runs(None, tmp_path)
    assert [(run.run_id, run.selection) for run in runs.listed()] == [("night02", True), ("night01", False)]
    assert newest_views(runs)[0]["m"].run_id == "night01"
    assert runs.newest().run_id == "night02"
    with pytest.raises(InputError) as caught:
        compared(runs)
    expected = "two comparable runs, got 1 run, and 1 of selected ops only; try opscope diff night01 night02"
    assert str(caught.value) == f"opscope diff: expected {expected}"


def test_there_is_no_page_of_a_night_that_does_not_count(url: str, tmp_path: Path) -> None:
    with read_database(url) as connection, pytest.raises(InputError, match="a run of selected ops, which nights leave"):
        render_night(connection, ["night03"], tmp_path, tmp_path / "page.html", Owned((), None))
