"""The newest night in one sentence: the view `dashboard_verdict` against nights of which the answer is known."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from opscope.reports.database.database import open_database
from opscope.reports.publish.publish import publish
from opscope.reports.tests.nights import Op, night

NIGHTS = [datetime(2026, 5, day, 2, tzinfo=UTC) for day in (1, 2)]
RIGHT, NOT_TAKEN = Op("success", {"m": 1}), Op("compile_failed", {"m": 1}, error="tanh is not taken")
COMMITS = f"since {'00' * 4}..{'10' * 4}, since {'01' * 4}..{'11' * 4}"


def sentences(url: str) -> dict[str, str]:
    with open_database(url) as connection:
        return dict(connection.execute(sa.text("SELECT platform, sentence FROM dashboard_verdict")).all())


def test_an_op_that_gets_worse_on_two_boards_counts_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'r.sqlite'}"
    for number, (started, ops) in enumerate(
        zip(NIGHTS, ({"tanh": RIGHT, "sine": NOT_TAKEN}, {"tanh": NOT_TAKEN, "sine": RIGHT}), strict=True)
    ):
        for board in ("n150", "p150"):
            publish(night(tmp_path / "runs", 10 * number + (board == "p150"), ops, started=started, arch=board), url)
    expected = sentences(url)
    assert len(expected) == 3
    worse = "1 new failure, 1 cause: start with tanh (1 model)"
    assert set(expected.values()) == {worse}
    with open_database(url) as connection:
        asked = "SELECT about, chips FROM dashboard_verdict WHERE one_series = 0"
        assert connection.exec_driver_sql(asked).all() == [
            (f"2026-05-02, reference n150, reference p150, {COMMITS}", "1 fixed")
        ]


def test_a_series_that_stopped_has_no_part_in_the_newest_night(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'r.sqlite'}"
    publish(night(tmp_path / "runs", 1, {"tanh": NOT_TAKEN}, started=NIGHTS[0], arch="p150"), url)
    publish(night(tmp_path / "runs", 2, {"tanh": RIGHT}, started=NIGHTS[1], arch="n150"), url)
    newest = "nothing fails: 1 of 1 ops right"
    stopped = "No night: its newest run is of 2026-05-01."
    assert sentences(url) == {"all": newest, "reference n150": newest, "reference p150": stopped}


def test_a_first_night_and_a_night_without_change(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'r.sqlite'}"
    publish(night(tmp_path / "runs", 1, {"tanh": NOT_TAKEN}, started=NIGHTS[0], arch="n150"), url)
    assert sentences(url)["all"] == "1 failing, 1 cause: start with tanh (1 model)"
    publish(night(tmp_path / "runs", 2, {"tanh": NOT_TAKEN}, started=NIGHTS[1], arch="n150"), url)
    assert sentences(url)["all"] == "1 still failing, 1 cause: start with tanh (1 model)"


def test_what_is_worse_came_with_commits_and_never_with_a_fingerprint(tmp_path: Path) -> None:
    known, unknown = (f"sqlite:///{tmp_path / name}" for name in ("known.sqlite", "unknown.sqlite"))
    for number, op in enumerate((RIGHT, NOT_TAKEN), 1):
        for url, revision in ((known, f"{number}" * 40), (unknown, "")):
            options = {"dtype": "float32", "seed": 0, "fingerprint": f"mine-{number}"}
            origin = {"revision": revision, "backend_revision": revision, "options": options}
            folder = tmp_path / f"runs-{bool(revision)}"
            publish(night(folder, number, {"tanh": op}, started=NIGHTS[number - 1], origin=origin), url)
    what, about = "1 new failure, 1 cause: start with tanh (1 model)", "night02 2026-05-02 02:00 UTC, reference n150"
    for url, since in ((known, f", since {'1' * 8}..{'2' * 8}"), (unknown, "")):
        assert sentences(url)["all"] == what
        with open_database(url) as connection:
            asked = "SELECT about FROM dashboard_verdict WHERE one_series = 0"
            assert connection.exec_driver_sql(asked).scalar() == f"{about}{since}"
