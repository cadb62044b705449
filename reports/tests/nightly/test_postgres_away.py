"""A night whose PostgreSQL goes away in the middle of it is late, and whole when the server is back."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.harness.record.run_folders import runs_root
from opscope.reports.database.ask import ask
from opscope.reports.nightly.delivery import Delivered
from opscope.reports.nightly.night import NightResult, deliver
from opscope.reports.publish import spool
from opscope.reports.tests import postgres_server
from opscope.reports.tests.night_runs import shard_run
from opscope.reports.tests.nightly.nights_here import config_of, night_of
from opscope.reports.tests.nights import Op

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(postgres_server.programs() is None, reason=postgres_server.INSTALL),
]


def test_a_server_that_is_killed_between_two_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg", reason="pip install 'opscope[postgres]'")
    server = postgres_server.new_server()
    try:
        url = server.database()
        config = config_of(tmp_path, shards=2)

        def night(number: int, start: int) -> NightResult:
            result = night_of(config, number, tmp_path)
            runs = []
            for shard, (ran, did_not_run) in enumerate((("add", "tanh"), ("tanh", "add")), 1):
                ops = {ran: Op(uses={"a": 1, "b": 1}), did_not_run: Op("skipped", {"a": 1, "b": 1})}
                origin = {"options": {"dtype": "float32", "seed": 0, "shard": f"{shard}/2"}}
                runs.append(shard_run(runs_root(tmp_path), result, start + shard, ops, shard, origin=origin))
            return deliver(config, result, runs, url, tmp_path, (), environment={}, reports=False)

        assert night(1, 10).delivered.published == ("night11", "night12")

        kept = spool.deliver
        seen: list[Path] = []

        def crash(run_dir: Path, *words: object) -> object:
            seen.append(run_dir)
            if len(seen) == 2:
                server.kill()
            return kept(run_dir, *words)  # type: ignore[arg-type]

        monkeypatch.setattr(spool, "deliver", crash)
        result = night(2, 20)
        monkeypatch.undo()
        assert (result.delivered.published, result.delivered.spooled) == (("night21",), ("night22",))
        assert [problem.kind for problem in result.verdict.problems if not problem.fails][-1:] == ["spooled"]
        assert "the database could not be reached; 1 run waits in the spool" in result.summary
        assert "postgres:" not in result.summary
        server.start()
        again: Delivered = night(3, 30).delivered
        assert again.from_spool == ("night22",)
        rows = ask(url, "SELECT night_id, night_status FROM night_status ORDER BY night_id").rows
        assert [row[1] for row in rows] == ["complete"] * 3
        assert ask(url, "SELECT COUNT(*), COUNT(DISTINCT run_id) FROM op_tests").rows == ((12, 6),)
    finally:
        postgres_server.remove(server)
