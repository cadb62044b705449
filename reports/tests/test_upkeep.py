"""`opscope db`: upgrade, stats, prune and alias, each as a user calls it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from opscope.harness.record.errors import InputError
from opscope.reports.commands.db import db
from opscope.reports.compare import op_history
from opscope.reports.database.database import open_database
from opscope.reports.database.files import head
from opscope.reports.database.reading_role import read_only_role
from opscope.reports.publish.publish import publish
from opscope.reports.publish.upkeep import add_alias, age_of, prune, statistics
from opscope.reports.tests.night_runs import copy_of, fresh, publish_night
from opscope.reports.tests.nights import Op, night, op_id

EARLY = {"add": Op(uses={"a": 2}), "gone": Op("crashed", uses={"a": 1}, error="it fell")}
LATE = {"add": Op("compile_failed", uses={"a": 2}), "sum": Op(uses={"a": 1})}


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("two-nights")
    url = fresh(folder / "db.sqlite")
    publish_night(url, folder / "1", 1, EARLY)
    publish_night(url, folder / "9", 9, LATE)
    return url


@pytest.fixture
def url(two_nights: str, tmp_path: Path) -> str:
    return copy_of(two_nights, tmp_path / "db.sqlite")


def run(*words: str) -> Result:
    return CliRunner().invoke(db, words)


def ask(url: str, query: str) -> list[Any]:
    with open_database(url) as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def test_prune_takes_what_only_old_nights_have_and_compares_anew(url: str) -> None:
    now = datetime(2026, 11, 15, 2, tzinfo=UTC)  # five days after the second night began: it stays
    before = ask(url, "SELECT night_id FROM nights")
    assert prune(url, timedelta(days=5), dry_run=True, now=now) == {"nights": 1, "runs": 1, "op_tests": 2}
    assert ask(url, "SELECT night_id FROM nights") == before
    assert prune(url, timedelta(days=5), now=now) == {"nights": 1, "runs": 1, "op_tests": 2}
    assert {row[0] for row in ask(url, "SELECT op_id FROM ops")} == {op_id("add"), op_id("sum")}
    assert ask(url, "SELECT COUNT(*) FROM errors WHERE message = 'it fell'") == [(0,)]
    assert ask(url, "SELECT label, previous_night FROM night_changes JOIN night_series USING (night_id, series)") == [
        ("FIRST", "")
    ]
    assert ask(url, "SELECT DISTINCT op_id FROM uses EXCEPT SELECT op_id FROM ops") == []
    assert prune(url, timedelta(days=5), now=now) == {"nights": 0, "runs": 0, "op_tests": 0}


def test_prune_gives_the_disk_back(tmp_path: Path) -> None:
    url = fresh(tmp_path / "db.sqlite")
    many = {f"op{number}": Op("crashed", uses={"a": 1}, error=f"{number} " + "x" * 2000) for number in range(300)}
    publish_night(url, tmp_path / "1", 1, many)
    publish_night(url, tmp_path / "9", 9, LATE)
    before = (tmp_path / "db.sqlite").stat().st_size
    days = (datetime.now(UTC) - datetime(2026, 11, 5, tzinfo=UTC)).days  # the first night is older, the second is not
    keep = ("prune", "--keep", f"{days}d", "--db", url)
    assert run(*keep, "--dry-run").exit_code == 0
    assert (tmp_path / "db.sqlite").stat().st_size == before
    done = run(*keep)
    after = (tmp_path / "db.sqlite").stat().st_size
    assert after < before / 2
    assert done.output.splitlines() == [
        "removed: 1 night, 1 run, 300 op tests",
        f"disk: {before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB now",
    ]
    assert ask(url, "SELECT COUNT(*) FROM op_tests") == [(2,)]
    assert run(*keep).output == "removed: 0 nights, 0 runs, 0 op tests\n"


@pytest.mark.parametrize(("text", "days"), [("36h", 1.5), ("180d", 180), ("12w", 84), (" 0.5d ", 0.5), ("1000w", 7000)])
def test_an_age_in_hours_days_or_weeks(text: str, days: float) -> None:
    assert age_of("--keep", text) == timedelta(days=days)


@pytest.mark.parametrize("age", ["", "180", "soon", "-3d", "0d", "0.0h", "99999999999w"])
def test_an_age_is_a_number_and_a_unit(age: str) -> None:
    with pytest.raises(InputError, match="--keep: expected "):
        age_of("--keep", age)


def test_the_command_prunes(url: str) -> None:
    done = run("prune", "--keep", "9999d", "--db", url)
    assert (done.exit_code, done.output) == (0, "removed: 0 nights, 0 runs, 0 op tests\n")


def test_stats_are_the_rows_that_are_there(url: str, tmp_path: Path) -> None:
    done = run("stats", "--db", url, "--json")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.output)
    assert (figures["nights"], figures["runs_alone"], figures["schema"]) == (2, 0, head())
    assert figures["bytes"] == (tmp_path / "db.sqlite").stat().st_size
    for table in ("op_tests", "ops", "uses", "nights"):
        assert ask(url, f"SELECT COUNT(*) FROM {table}") == [(figures["rows"][table],)], table
    assert "2026-11-02 02:00 to 2026-11-10 02:00 UTC" in run("stats", "--db", url).output


def test_stats_tell_nights_from_runs_alone(tmp_path: Path) -> None:
    empty = fresh(tmp_path / "empty.sqlite")
    figures = statistics(empty)
    assert (figures["nights"], figures["runs_alone"], figures["first"], figures["last"]) == (0, 0, None, None)
    publish(night(tmp_path, 3, LATE), empty)
    publish_night(empty, tmp_path / "night", 4, LATE)
    figures = statistics(empty)
    assert (figures["nights"], figures["runs_alone"]) == (1, 1)
    assert (figures["first"], figures["last"]) == ("2026-11-04 02:00", "2026-11-05 02:00")
    assert (figures["rows"]["runs"], figures["rows"]["op_tests"]) == (2, 4)


@pytest.mark.parametrize(
    ("url", "name", "variable", "problem"),
    [
        ("sqlite:///here.sqlite", "reader", None, "--db: expected a PostgreSQL database, got SQLite"),
        ("postgresql://away/db", "a reader", None, "NAME: expected letters, digits and underscores, got `a reader`"),
        ("postgresql://away/db", "r" * 64, None, "NAME: expected letters, digits and underscores, got `"),
        (
            "postgresql://away/db",
            "r" * 63,
            "NO_SUCH",
            "--password-env: expected a variable that is set, got no `NO_SUCH`",
        ),
    ],
)
def test_a_role_that_cannot_be_is_refused_before_the_database_is_asked(
    url: str, name: str, variable: str | None, problem: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_only_role(url, name, variable)
    assert str(caught.value).startswith(problem)


def test_an_alias_of_an_alias_is_refused(url: str) -> None:
    add, gone, total = op_id("add"), op_id("gone"), op_id("sum")
    assert add_alias(url, gone, total, "ids of version 2") == 2
    for old, new in ((add, gone), (total, add), (add, add)):
        with pytest.raises(InputError) as caught:
            add_alias(url, old, new, "")
        expected = f"NEW_ID: expected an id that has no alias itself, got `{new}`; try the newest id of both"
        assert str(caught.value) == expected
    assert add_alias(url, gone, add, "a better guess") == 2  # in place of the one before
    assert ask(url, "SELECT old_id, new_id, reason FROM op_alias") == [(gone, add, "a better guess")]


def test_upgrade_makes_what_is_not_there_and_changes_nothing_that_is(tmp_path: Path, url: str) -> None:
    new = f"sqlite:///{tmp_path / 'new.sqlite'}"
    for _ in range(2):
        done = run("upgrade", "--db", new)
        assert f"schema {head()}" in done.output, done.output
    assert ask(new, "SELECT COUNT(*) FROM night_status") == [(0,)]
    content = (tmp_path / "db.sqlite").read_bytes()
    assert run("upgrade", "--db", url).exit_code == 0
    assert (tmp_path / "db.sqlite").read_bytes() == content


def test_an_alias_joins_two_histories(url: str) -> None:
    done = run("alias", op_id("gone"), op_id("sum"), "--reason", "ids of version 2", "--db", url)
    assert done.output == f"{op_id('gone')} continues as {op_id('sum')}; 2 nights were counted again\n"
    with open_database(url) as connection:
        for name in ("gone", "sum"):
            result = op_history.op(connection, op_id(name), (), None)
            assert result is not None
            assert (result["op_id"], result["once"]) == (op_id("sum"), [op_id("gone")])
    joined = f"SELECT status FROM night_ops WHERE op_id = '{op_id('sum')}' ORDER BY started"
    assert ask(url, joined) == [("crashed",), ("success",)]
    assert ("FIXED",) in ask(url, f"SELECT label FROM night_changes WHERE op_id = '{op_id('sum')}'")
    wrong = {
        "OLD_ID: expected an op of the database": ("f" * 16, op_id("sum")),
        "NEW_ID: expected an id that has no alias itself": (op_id("add"), op_id("gone")),
    }
    for problem, (old, new) in wrong.items():
        assert str(run("alias", old, new, "--db", url).exception).startswith(problem)
