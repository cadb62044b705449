"""A night that a wrong clock has dated later than now is the newest for nobody, and is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from opscope.base.night_grid import due
from opscope.reports.commands.compare import diff
from opscope.reports.commands.report import report
from opscope.reports.commands.status import status
from opscope.reports.compare.run_selection import open_runs
from opscope.reports.database.ask import ask
from opscope.reports.database.newest import ahead_line
from opscope.reports.database.owners import Rule, store_owners
from opscope.reports.database.reading import read_database
from opscope.reports.nightly.baseline import baseline_night
from opscope.reports.publish.counting import open_counted
from opscope.reports.publish.publish import publish
from opscope.reports.publish.sentences import renew_newest
from opscope.reports.records.night_record import join
from opscope.reports.tests.night_runs import record
from opscope.reports.tests.nights import Op, night

NOW = datetime.now(UTC).replace(microsecond=0)
STARTS = {1: NOW - timedelta(days=19), 2: NOW - timedelta(days=18), 3: NOW + timedelta(days=900)}


@pytest.fixture
def url(new: Callable[[], str], tmp_path: Path) -> str:
    """Three nights; the clock was wrong in the last, whose one op fails."""
    url = new()
    for number, started in STARTS.items():
        ops = {"add": Op("compile_failed" if number == 3 else "success", {"a": 1, "b": 1})}
        run = night(tmp_path, number, ops, started=started, ended=started + timedelta(minutes=5))
        join(run, record(number, started=started, config={"by": f"{NOW:%H:%M}"}))
        publish(run, url)
    return url


def night_id(number: int) -> str:
    return f"nightly-{STARTS[number]:%Y%m%d-%H%M%S}"


def run(command: Any, *words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=False)


def test_it_is_named_and_is_the_newest_for_no_command(url: str) -> None:
    named = f"not the newest: {night_id(3)} of {STARTS[3]:%Y-%m-%d %H:%M} UTC, dated later than now\n"
    done = run(status, "--database", url, "--max-age", "26h")
    assert done.exit_code == 1
    assert f"newest complete night: {night_id(2)}, 18.0 d old\n" in done.output
    assert "late: no complete night is younger than 26h\n" in done.output
    assert "late: no night by" in done.output
    assert named in done.output
    assert run(status, "--database", url).exit_code == 1
    assert json.loads(run(status, "--database", url, "--json").output)["ahead"] == named.strip()
    since = f"{STARTS[2]:%Y-%m-%d}"
    for words in ((), ("--since", since)):
        done = run(diff, *words, "--db", url)
        assert (done.exit_code, night_id(2) in done.output, named.strip() in done.output.replace("\n", " ")) == (
            0,
            True,
            True,
        ), done.output
        assert "NEW" not in done.output
    assert night_id(3) in run(diff, night_id(3), "--db", url).output  # by its name it is there
    assert run(report, "--db", url).exit_code == 0


def test_it_is_the_newest_for_no_query(url: str) -> None:
    with read_database(url) as connection:
        assert baseline_night(connection, "nightly") == night_id(2)
        assert ahead_line(connection).startswith(f"not the newest: {night_id(3)} of ")
        asked = due.read(lambda query, _: connection.execute(sa.text(query)).all(), NOW)
        assert asked is not None
        assert abs(asked.started - STARTS[2]) < timedelta(seconds=1)
    with open_runs(url) as runs:
        assert [each.run_id for each in runs.listed()] == ["night02", "night01"]
    with open_counted(url) as connection:
        store_owners(connection, [Rule("conv", "*")])
        renew_newest(connection)
    for query in (
        "SELECT DISTINCT night_id FROM night_dates WHERE newest = 1 OR tonight = 1 OR stopped = 1",
        "SELECT night_id FROM night_status WHERE nights_ago = 0",
        "SELECT DISTINCT night_id FROM model_readiness WHERE nights_ago = 0",
        "SELECT DISTINCT night_id FROM newest_ops",
        "SELECT DISTINCT night_id FROM night_newest_ops",
        "SELECT DISTINCT n.night_id FROM dashboard_verdict v JOIN nights n ON n.started = v.started",
    ):
        assert ask(url, query).rows == ((night_id(2),),), query
    assert ask(url, "SELECT nights_ago FROM night_status ORDER BY started").rows == ((1,), (0,), (-1,))
    assert ask(url, "SELECT COUNT(*) FROM night_grid WHERE newest = 1").rows == ((0,),)


def test_a_clock_may_be_a_day_wrong(new: Callable[[], str], tmp_path: Path) -> None:
    url = new()
    started = NOW + timedelta(hours=20)
    run_dir = night(tmp_path, 1, {"add": Op(uses={"a": 1, "b": 1})}, started=started, ended=started)
    join(run_dir, record(1, started=started))
    publish(run_dir, url)
    done = run(status, "--database", url)
    assert (done.exit_code, "newest complete night" in done.output) == (0, True)
    assert ask(url, "SELECT newest FROM night_dates").rows == ((1,),)
