"""A PostgreSQL server that lets somebody in and then says nothing more holds nobody for long."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from opscope.base import server_connection
from opscope.harness.cli import doctor
from opscope.harness.cli.main import main
from opscope.harness.record.errors import InputError
from opscope.reports.database import ask as asking
from opscope.reports.database import database, postgres_session, reading
from opscope.reports.database.ask import ask
from opscope.reports.publish import spool
from opscope.reports.publish.publish import publish
from opscope.reports.tests import postgres_server
from opscope.reports.tests.night_runs import publish_night
from opscope.reports.tests.nights import Op, night

pytestmark = [pytest.mark.slow]

READY = b"Z\x00\x00\x00\x05"
"""What the server says when it has let somebody in, and after each query."""


class Relay:
    """Stands before a server. Each connection freezes, open, once the server has said `READY` so many times."""

    def __init__(self, port: int, answers: int) -> None:
        self.target, self.answers = port, answers
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open: list[socket.socket] = [self.listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.open += [client, server]
            frozen = threading.Event()
            for source, target in ((client, server), (server, client)):
                threading.Thread(
                    target=self._carry, args=(source, target, frozen, target is client), daemon=True
                ).start()

    def _carry(self, source: socket.socket, target: socket.socket, frozen: threading.Event, answers: bool) -> None:
        said = 0
        try:
            while data := source.recv(1 << 16):
                if frozen.is_set():
                    continue
                target.sendall(data)
                said += data.count(READY) if answers else 0
                if said >= self.answers:
                    frozen.set()
        except OSError:
            return

    def close(self) -> None:
        for each in self.open:
            each.close()


@pytest.fixture(params=[1, 4])
def frozen(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a database with two nights whose server freezes; nobody waits for longer than a second or two."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reading, "READING", 0.5)
    monkeypatch.setattr(server_connection, "CANCELLING", 0.2)
    monkeypatch.setattr(postgres_session, "ANSWERS_WITHIN", 1)
    for module in (postgres_session, asking):
        monkeypatch.setattr(module, "CANCELLING", 0.2)
    monkeypatch.setattr(doctor, "CONNECTING", 1)
    server = postgres_server.shared()
    url = server.database()
    for number in (1, 2):
        publish_night(url, tmp_path / "runs", number, {"add": Op(uses={"a": 1, "b": 1})})
    relay = Relay(server.port, request.param)
    yield url.replace(f":{server.port}/", f":{relay.port}/")
    relay.close()


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--database"],
        ["sql", "SELECT run_id FROM runs", "--timeout", "0.3", "--db"],
        ["sql", "pass_rate_by_run", "--timeout", "0.3", "--db"],
        ["diff", "--db"],
        ["unblock", "--db"],
        ["readiness", "a", "--db"],
        ["report", "--db"],
        ["show", "a", "--db"],
        ["export", "--format", "csv", "-o", "-", "--db"],
        ["db", "stats", "--db"],
        ["scoreboard", "-o", "board", "--db"],
    ],
    ids=" ".join,
)
def test_a_reader_ends_with_one_line(words: list[str], frozen: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, frozen])
    lines = capfd.readouterr().err.splitlines()
    assert (ended.value.code, len(lines)) == (2, 1), lines
    assert "no answer within 0.5 s; try whether the server runs" in lines[0] or "an answer within 0.3 s" in lines[0]


def test_a_run_waits(frozen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = night(tmp_path / "runs", 3, {"add": Op(uses={"a": 1, "b": 1})})
    done = spool.deliver(run, frozen, tmp_path, seconds=1.0)
    assert "expected a publish of at most 1 s" in str(done.problem)
    assert [each.name for each in spool.waiting(frozen, tmp_path)] == ["night03"]
    monkeypatch.setattr(database, "WRITING", 0.5)
    done = spool.deliver(run, frozen, tmp_path)
    assert "no answer within 0.5 s" in str(done.problem)
    assert [each.name for each in spool.waiting(frozen, tmp_path)] == ["night03"]
    with pytest.raises(InputError, match="no answer within"):
        publish(run, frozen)


def test_doctor_says_so(frozen: str) -> None:
    _, remedy = doctor._connect(frozen)
    assert remedy.startswith("start the server") or remedy == ""  # it may not ask as much as the server answers


def test_a_long_query_that_the_server_is_at_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes in time is waited for, however long all of it takes; and what is given up ends at the server too."""
    url = postgres_server.shared().database()
    monkeypatch.setattr(reading, "READING", 2.0)
    publish_night(url, tmp_path / "runs", 1, {"add": Op(uses={"a": 1, "b": 1})})
    with reading.read_database(url) as connection:
        for _ in range(3):
            connection.execute(sa.text("SELECT pg_sleep(0.8)"))
    with pytest.raises(InputError, match="no answer within 2 s"), reading.read_database(url) as connection:
        connection.execute(sa.text("SELECT pg_sleep(600)"))
    left = "SELECT COUNT(*) FROM pg_stat_activity WHERE query LIKE '%sleep(600)' AND state = 'active'"
    assert ask(url, left).rows == ((0,),)
