"""Alerts and reports: the options that switch them on, their files, and real mail from a real Superset."""

from __future__ import annotations

import email
import json
import shutil
import sqlite3
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from opscope.dashboards.alerts import PASSWORD_VARIABLE, as_served, read_mail, schedules
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import Served
from opscope.dashboards.processes import free_port
from opscope.dashboards.tests.assets import ASSETS
from opscope.dashboards.tests.installation import Installation
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import record, shard_run
from opscope.reports.tests.nights import Op

OFF = Served("sqlite:///x", "x", "127.0.0.1", 1, "", "", False)


@pytest.mark.parametrize(
    ("server", "host", "port", "user", "sender"),
    [
        ("smtp://mail.example.org", "mail.example.org", 587, "", "a@example.org"),
        ("smtps://bot%40example.org@mail.example.org", "mail.example.org", 465, "bot@example.org", "bot@example.org"),
        ("smtp+plain://bot@127.0.0.1:2525", "127.0.0.1", 2525, "bot", "a@example.org"),
    ],
)
def test_a_mail_server_is_one_address(
    server: str, host: str, port: int, user: str, sender: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    mail = read_mail(["a@example.org, b@example.org"], server)
    assert mail.to == ["a@example.org", "b@example.org"]
    assert (mail.host, mail.port, mail.user, mail.sender, mail.password) == (host, port, user, sender, "secret")


@pytest.mark.parametrize(
    ("to", "server", "says"),
    [
        (["team"], "smtp://h", "--alerts-to: expected a mail address, got 'team'; try team@example.org"),
        (["a@b"], None, "--mail-server: expected one, since --alerts-to is given, got none"),
        ([], "smtp://h", "--alerts-to: expected one, since --mail-server is given, got none"),
        (
            ["a@b"],
            "http://h",
            "--mail-server: expected an address with smtp://, smtps://, smtp+plain://, got 'http://h'",
        ),
        (["a@b"], "smtp://h:99999", "got 'smtp://h:99999'"),
        (["a@b"], "smtp://h/path", "got 'smtp://h/path'"),
        (["a@b"], "smtp://u:hush@h", f"--mail-server: expected no password in it, got one; try {PASSWORD_VARIABLE}"),
    ],
)
def test_a_bad_address_is_refused(to: list[str], server: str | None, says: str) -> None:
    with pytest.raises(DashboardError) as refused:
        read_mail(to, server)
    assert says in str(refused.value)
    assert "hush" not in str(refused.value)


def test_without_an_address_nothing_is_on() -> None:
    assert as_served(read_mail([""], None)) == {}
    assert [doc["to"] for doc in schedules(ASSETS, OFF)] == [[]] * len(ASSETS.alerts)


@pytest.fixture
def mailbox() -> Iterator[tuple[int, list[Any]]]:
    """A mail server on this machine: its port, and what it was sent."""
    controllers = pytest.importorskip("aiosmtpd.controller", reason="pip install aiosmtpd")
    sent: list[Any] = []

    class Handler:
        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
            sent.append(envelope)
            return "250 OK"

    controller = controllers.Controller(Handler(), hostname="127.0.0.1", port=free_port("127.0.0.1"))
    controller.start()
    try:
        yield controller.port, sent
    finally:
        controller.stop()


def rows(installation: Installation) -> dict[str, tuple[bool, str]]:
    """Name -> whether it is active, and its state, of every alert and report in Superset's database."""
    with closing(sqlite3.connect(installation.folder / "home" / "superset.sqlite")) as connection:
        result = connection.execute("SELECT name, active, last_state FROM report_schedule").fetchall()
    return {name: (bool(active), state) for name, active, state in result}


@pytest.fixture
def restored(installation: Installation, tmp_path: Path) -> Iterator[Installation]:
    """The installation, which has its results and its alerts back after the test, in whatever order tests run."""
    files = (installation.database, installation.folder / "home" / "superset.sqlite")
    for path in files:
        with closing(sqlite3.connect(path)) as now, closing(sqlite3.connect(tmp_path / path.name)) as kept:
            now.backup(kept)
    yield installation
    installation.run("down")
    for path in files:
        for name in (f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
        shutil.copyfile(tmp_path / path.name, path)
    installation.up()


@pytest.mark.slow
def test_alerts_are_off_and_say_what_they_would_send(installation: Installation) -> None:
    names = {alert.name for alert in ASSETS.alerts.values()}
    assert rows(installation) == dict.fromkeys(names, (False, "Not triggered"))
    assert "alerts" not in installation.status["processes"]
    lines = {row["alert"]: row for row in json.loads(installation.run("check", "--json")) if "alert" in row}
    assert set(lines) == {alert.name for alert in ASSETS.alerts.values() if alert.sql}
    for alert in ASSETS.alerts.values():
        if alert.sql:
            value = installation.ask(alert.sql)
            line = {"alert": alert.name, "on": False, "value": value, "sent": value > alert.above, "error": ""}
            assert lines[alert.name] == line
    assert any(line["sent"] for line in lines.values())
    assert rows(installation) == dict.fromkeys(names, (False, "Not triggered"))  # they were only tried


@pytest.mark.slow
def test_mail_arrives_once_an_address_is_given(restored: Installation, mailbox: tuple[int, list[Any]]) -> None:
    port, sent = mailbox
    worse = ASSETS.alerts["worse"].name
    try:
        restored.up("--alerts-to", "team@example.org", "--mail-server", f"smtp+plain://127.0.0.1:{port}")
        assert {active for active, _ in rows(restored).values()} == {True}
        assert "alerts" in restored.status["processes"]
        with closing(sqlite3.connect(restored.folder / "home" / "superset.sqlite")) as connection, connection:
            connection.execute("UPDATE report_schedule SET crontab = '* * * * *' WHERE name = ?", (worse,))
        deadline = time.monotonic() + 200
        while rows(restored)[worse][1] != "On Grace" and time.monotonic() < deadline:
            time.sleep(2)
    finally:
        restored.up()
    assert len(sent) == 1  # the next minute sends nothing: as bad as before
    assert sent[0].rcpt_tos == ["team@example.org"]
    message = email.message_from_bytes(sent[0].content)
    body = message.get_payload()[0].get_payload(decode=True).decode()
    assert worse in message["Subject"]
    assert (
        restored.ask("SELECT MAX(sentence) FROM dashboard_verdict WHERE one_series = 1 AND verdict = 'worse'") in body
    )
    assert f"{restored.status['url']}/superset/dashboard/opscope-tonight/" in body
    assert {active for active, _ in rows(restored).values()} == {False}
    assert "alerts" not in restored.status["processes"]


@pytest.mark.slow
def test_what_does_not_arrive_is_seen(restored: Installation) -> None:
    late = ASSETS.alerts["late"].name
    began = datetime.now(UTC) - timedelta(days=3)
    night = record(1, started=began, zone="Europe/Berlin", config={"by": "07:00"})
    publish(
        shard_run(restored.folder / "runs", night, 1, {"add": Op(uses={"a": 1})}),
        f"sqlite:///{restored.database}",
    )
    nobody = f"smtp+plain://127.0.0.1:{free_port('127.0.0.1')}"
    base = restored.up("--anonymous", "--alerts-to", "team@example.org", "--mail-server", nobody)
    with closing(sqlite3.connect(restored.folder / "home" / "superset.sqlite")) as connection, connection:
        assert connection.execute("SELECT DISTINCT timezone FROM report_schedule").fetchall() == [("Europe/Berlin",)]
        connection.execute("UPDATE report_schedule SET crontab = '0 0 29 2 *'")  # else others come at their own hours
        connection.execute("UPDATE report_schedule SET crontab = '* * * * *' WHERE name = ?", (late,))
    deadline = time.monotonic() + 200
    failing: list[str] = []
    while not failing and time.monotonic() < deadline:
        time.sleep(5)
        failing = json.loads(restored.run("status", "--json", code=None))["alerts_failing"]
    assert [line.partition(":")[0] for line in failing] == [late], failing
    restored.run("status", code=1)
    with urllib.request.urlopen(f"{base}/night/") as answer:
        page = answer.read().decode()
    assert "Alerts do not arrive" in page
    assert "Late: no night by" in page
    assert "Europe/Berlin: the newest night began" in page
