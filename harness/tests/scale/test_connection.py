"""Which workers of a cluster get ops: those that run the same code, while the scheduler answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opscope.base import damage
from opscope.harness.record.errors import InputError
from opscope.harness.scale import connection
from opscope.harness.scale.connection import Connection


class Scheduler:
    """Stands in for Dask's client: workers with a device each, by the digest of their sources."""

    def __init__(self, **sources: str | None) -> None:
        self.sources = sources
        self.gone = False

    def scheduler_info(self) -> dict[str, Any]:
        details = {"resources": {connection.RESOURCE: 1}, "nthreads": 1}
        return {} if self.gone else {"workers": dict.fromkeys(self.sources, details)}

    def run(self, function: object, workers: list[str]) -> dict[str, str]:
        if (sources := self.sources[workers[0]]) is None:
            raise ModuleNotFoundError("No module named 'opscope'")
        return {workers[0]: json.dumps({"sources": sources})}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that a user sees; the scheduler's answers are not reused."""
    lines: list[str] = []
    damage.forget()
    damage.show_by(lines.append)
    monkeypatch.setattr(connection, "FRESH_SECONDS", 0.0)
    return lines


def connected(scheduler: Scheduler) -> Connection:
    made = object.__new__(Connection)
    made._where, made._client, made._sources = "--cluster tcp://here", scheduler, "ours"
    made._slots, made._same_code, made._other_code = (0.0, {}), set(), {}
    made._alive, made._shipped = frozenset(), {}
    return made


def test_a_worker_of_another_revision_that_joins_is_left_out(said: list[str]) -> None:
    scheduler = Scheduler(first="ours")
    cluster = connected(scheduler)
    assert cluster.slots() == {"first": 1}
    scheduler.sources |= {"other": "theirs", "bare": None, "second": "ours"}
    assert cluster.slots() == cluster.slots() == {"first": 1, "second": 1}
    assert [line.partition(" is left out: ")[0] for line in said] == ["other", "bare"], "once each"
    assert "expected the same opscope on every worker, got a different one on other" in said[0]
    assert not damage.losses()


def test_a_cluster_of_no_other_workers_is_refused(said: list[str]) -> None:
    with pytest.raises(InputError, match="expected the same opscope on every worker, got a different one on other"):
        connected(Scheduler(other="theirs"))._await_workers()


def test_a_worker_with_another_backend_is_left_out(said: list[str]) -> None:
    cluster = connected(Scheduler(first="ours", second="ours"))
    assert cluster.slots() == {"first": 1, "second": 1}
    cluster.leave_out("second", InputError("--cluster", "one backend on all workers (1)", "2 on second"))
    assert cluster.slots() == {"first": 1}
    assert len(said) == 1


def test_a_scheduler_that_is_gone_has_no_workers(said: list[str]) -> None:
    scheduler = Scheduler(first="ours")
    cluster = connected(scheduler)
    assert cluster.slots() == {"first": 1}
    scheduler.gone = True
    assert cluster.slots() == {}
    assert not cluster.alive("first")
