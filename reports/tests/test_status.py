"""Whether nights arrive: what is late, what is partial, what waits."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.harness.record.errors import InputError
from opscope.reports.commands.status import status
from opscope.reports.nightly.night_folder import end
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import fresh, record, shard_run
from opscope.reports.tests.nights import Op

OPS = {"add": Op(uses={"a": 1, "b": 1})}


def expected(url: str, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(status, ["--database", url, *words], catch_exceptions=False)
    return done.exit_code, done.output


def test_a_partial_night_is_none_and_a_complete_one_ages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = fresh(tmp_path / "db.sqlite")
    assert expected(url) == (0, "newest complete night: none\n")
    assert expected(url, "--max-age", "26h")[0] == 1
    now = datetime.now(UTC).replace(microsecond=0)
    for number, (hours, models, more) in enumerate(
        (
            (30, ("a", "b"), {}),
            (6, ("a", "b", "c"), {}),
            (5, ("a", "b"), {"demo": True}),
            (4, ("a",), {"name": "other"}),
        )
    ):
        night = record(number, started=now - timedelta(hours=hours), models=models, **more)
        publish(shard_run(tmp_path, night, number, OPS), url)
    code, text = expected(url, "--max-age", "26h", "--name", "nightly")
    assert code == 1
    assert ", 30 h old\n" in text
    assert "not counted: demo data of 1 night\n" in text
    assert "partial: reference n150: model c\n" in text
    assert "late: no complete night is younger than 26h\n" in text
    assert expected(url, "--max-age", "31h", "--name", "nightly")[0] == 0
    code, text = expected(url, "--max-age", "5h", "--json")
    assert (code, json.loads(text)["newest_complete"]["age_hours"]) == (0, pytest.approx(4, abs=0.1))
    publish(shard_run(tmp_path, record(9), 9, OPS), url)  # an older night that comes late changes nothing
    assert expected(url, "--max-age", "31h", "--name", "nightly")[0] == 0


def test_a_night_that_does_not_come_by_its_hour_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = fresh(tmp_path / "db.sqlite")
    now = datetime.now(UTC).replace(microsecond=0)
    by = f"{now - timedelta(minutes=5):%H:%M}"
    publish(shard_run(tmp_path, record(1, started=now - timedelta(hours=26), config={"by": by}), 1, OPS), url)
    code, text = expected(url)
    assert code == 1
    assert f"late: no night by {now - timedelta(minutes=5):%Y-%m-%d %H:%M} UTC: the newest night began" in text
    publish(shard_run(tmp_path, record(2, started=now - timedelta(hours=2), config={"by": by}), 2, OPS), url)
    assert expected(url)[0] == 0
    assert json.loads(expected(url, "--json")[1])["missed"] == ""


def test_a_message_that_nobody_took_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = fresh(tmp_path / "db.sqlite")
    night = record(1)
    line = "webhook: expected it to take the summary, got HTTP 500; try notify.webhook"
    end(tmp_path, night, {"unsent": [line]})
    assert expected(url) == (
        1,
        f"newest complete night: none\nthe message of {night.night_id} was not sent: {line}\n",
    )
    end(tmp_path, night, {"unsent": []})
    assert expected(url)[0] == 0


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--max-age: expected an age, got `soon`"):
        expected(f"sqlite:///{tmp_path}/db.sqlite", "--max-age", "soon")
    with pytest.raises(
        InputError, match=r"--database: expected a results database, got no file .*; try opscope nightly$"
    ):
        expected(f"sqlite:///{tmp_path}/db.sqlite")
