"""Where the runs lie that have an op: what a database knows of them, for `opscope repro`, `reduce` and `probe`."""

from __future__ import annotations

import shlex
from typing import Any

import sqlalchemy as sa

from opscope.harness.record.origin import FOLDER
from opscope.harness.record.stages import FAILED
from opscope.reports.compare.op_history import op
from opscope.reports.database.owners import rules_here
from opscope.reports.database.reading import database_url, exists, read_database
from opscope.reports.database.schema import OP_TESTS, RUNS

MOST = 50
"""Most runs that are named, the newest first."""


def places(word: str, url: str | None, run_id: str = "") -> list[dict[str, str]]:
    """The runs in which an op whose id begins with `word` failed, the newest first, then those that have it.

    Each with `op_id`, `run_id`, `run_dir` (its folder on the machine `host`), and `artifact_url`, the server that it
    was configured with (or empty). `url`: the database; by default that of this folder, and nothing where there is
    none. Raises InputError for a database that cannot be read.
    """
    if not word or (url is None and not exists(database_url(url))):
        return []
    failed = OP_TESTS.c.status.in_([str(status) for status in FAILED])
    query = (
        sa.select(OP_TESTS.c.op_id, OP_TESTS.c.run_id, OP_TESTS.c.repro, RUNS.c.host, RUNS.c.options)
        .join(RUNS, RUNS.c.run_id == OP_TESTS.c.run_id)
        .where(OP_TESTS.c.op_id.startswith(word, autoescape=True), OP_TESTS.c.status.not_in(("skipped", "not_run")))
        .order_by(sa.case((failed, 0), else_=1), RUNS.c.started.desc(), OP_TESTS.c.attempt.desc())
    )
    if run_id:
        query = query.where(OP_TESTS.c.run_id == run_id)
    with read_database(database_url(url), "--from" if url else "--db") as connection:
        rows = connection.execute(query.limit(4 * MOST)).all()
    known: dict[tuple[str, str], dict[str, str]] = {}
    for op_id, run, repro, host, options in rows:
        known.setdefault(
            (run, op_id),
            {
                "op_id": op_id,
                "run_id": run,
                "run_dir": str((options or {}).get(FOLDER) or _run_dir(repro)),
                "host": host or "",
                "artifact_url": str((options or {}).get("artifact_url") or ""),
            },
        )
    return list(known.values())[:MOST]


def _run_dir(repro: Any) -> str:
    """The run folder in the repro line of an older run's op, whose options do not have it; or empty."""
    try:
        words = shlex.split(str(repro or ""))
    except ValueError:
        return ""
    return words[words.index("--run-dir") + 1] if "--run-dir" in words[:-1] else ""


def history(op_id: str, url: str | None) -> list[dict[str, Any]]:
    """Since when an op fails, for each series in whose newest night it does: `on`, `night`, `range` and `url` of the
    commits, their `authors`, and the `owner` of the failure. `url` as for `places`; nothing for an op that it lacks."""
    if url is None and not exists(database_url(url)):
        return []
    with read_database(database_url(url), "--from" if url else "--db") as connection:
        details = op(connection, op_id, rules_here(connection), None, authors=True)
    if details is None:
        return []
    owners = {night["on"]: night["owner"] for night in reversed(details["history"])}
    return [{**since, "owner": owners.get(since["on"], "")} for since in details["since"]]
