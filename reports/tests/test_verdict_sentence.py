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
    assert expected["all"].startswith("Worse: 1 new failure with 1 cause, in tanh")
    assert expected["all"].endswith("; 1 fixed.")
    assert all(text.startswith("Worse: 1 new failure") for text in expected.values())


def test_a_first_night_and_a_night_without_change(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'r.sqlite'}"
    publish(night(tmp_path / "runs", 1, {"tanh": NOT_TAKEN}, started=NIGHTS[0], arch="n150"), url)
    assert sentences(url)["all"] == "First night: 1 op goes wrong."
    publish(night(tmp_path / "runs", 2, {"tanh": NOT_TAKEN}, started=NIGHTS[1], arch="n150"), url)
    assert sentences(url)["all"] == "As before: nothing is worse."


def test_what_is_worse_came_with_commits_and_never_with_a_fingerprint(tmp_path: Path) -> None:
    known, unknown = (f"sqlite:///{tmp_path / name}" for name in ("known.sqlite", "unknown.sqlite"))
    for number, op in enumerate((RIGHT, NOT_TAKEN), 1):
        for url, revision in ((known, f"{number}" * 40), (unknown, "")):
            options = {"dtype": "float32", "seed": 0, "fingerprint": f"mine-{number}"}
            origin = {"revision": revision, "backend_revision": revision, "options": options}
            folder = tmp_path / f"runs-{bool(revision)}"
            publish(night(folder, number, {"tanh": op}, started=NIGHTS[number - 1], origin=origin), url)
    worse = "Worse: 1 new failure with 1 cause, in tanh"
    assert sentences(known)["all"] == f"{worse} since {'1' * 12}..{'2' * 12}."
    assert sentences(unknown)["all"] == f"{worse}."
