"""Publishes a stored run to the results database in one transaction, and counts everything that follows from it.

Publishing a run again replaces its rows, or does nothing where neither the run nor this code is another than last time;
what it writes never depends on the clock or on the machine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opscope.base import gc_pause
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest
from opscope.harness.record.store import StoredRun, latest, read_run
from opscope.reports.database import rows, sqlite_file
from opscope.reports.database.database import analyze_nights
from opscope.reports.database.reading import exists, read_database
from opscope.reports.database.rows import Published, Row
from opscope.reports.database.schema import (
    ERRORS,
    LIMITATIONS,
    MODELS,
    MODULE_OPS,
    NIGHT_CELLS,
    NIGHTS,
    OP_TESTS,
    OPS,
    RUNS,
    STRUCTURES,
    USES,
)
from opscope.reports.database.upsert import upsert
from opscope.reports.database.whole_models import WHOLE_MODELS, whole_model_rows
from opscope.reports.publish import bulk, staging
from opscope.reports.publish.counting import count_night, open_counted
from opscope.reports.records import publish_digest
from opscope.reports.records.columns import plain

TABLES = (NIGHTS, RUNS, MODELS, OPS, USES, OP_TESTS)
"""Tables whose row counts a publish returns."""


def publish(
    run_dir: Path, url: str, where: str = "--to", records: tuple[StoredRun, Sequence[OpTest]] | None = None
) -> dict[str, int]:
    """Writes the run in `run_dir` to the database at `url`; the number of rows per table.

    `records`: the run and all its attempts as the folder holds them, where that is known.

    Raises InputError for a folder that holds no run of a known schema and for a database that cannot be written;
    then nothing of the run is in the database that was not before.
    """
    run_id = read_run(run_dir).run_id
    digest = publish_digest.digest(run_dir)
    stored = _published(url, run_id)
    if stored is not None and stored["digest"] == digest:
        return stored["rows"]
    with gc_pause.paused():
        published = [rows.read(run_dir, records)]
        with open_counted(url, where) as connection:
            counts = write(connection, published.pop(), where)  # which lets go of it before it counts
            statement = sa.update(RUNS).where(RUNS.c.run_id == run_id)
            connection.execute(statement.values(published={"digest": digest, "rows": counts}))
    return counts


WAITS = 30.0
"""Seconds until a file of SQLite that does not answer is taken for one that does not have the run."""


def _published(url: str, run_id: str) -> dict[str, Any] | None:
    """The digest and counts of the published run; None if it is not there or they are unknown."""
    if not exists(url):
        return None
    known: Any = None
    try:
        if path := sqlite_file.path_of(url):  # in half the time that SQLAlchemy takes
            quoted = run_id.replace("'", "''")
            answer = sqlite_file.ask(path, f"SELECT published FROM runs WHERE run_id = '{quoted}'", WAITS, 1)
            known = json.loads(answer[1][0][0]) if answer is not None and answer[1] else None
        else:
            with read_database(url) as connection:
                known = connection.scalar(sa.select(RUNS.c.published).where(RUNS.c.run_id == run_id))
    except (InputError, TimeoutError, ValueError, TypeError):
        return None  # a database of an older schema, or none that answers: who writes to it says so
    return known if isinstance(known, dict) and {"digest", "rows"} <= set(known) else None


def write(connection: sa.Connection, published: Published, where: str = "--to") -> dict[str, int]:
    """Replaces the rows of a run and counts its night anew. Raises InputError if another run of its name is there."""
    run = rows.run_row(published)
    before = _earlier_night(connection, run, where)
    night = rows.night_row(published)
    _night(connection, published, night, where)
    connection.execute(sa.delete(RUNS).where(RUNS.c.run_id == run["run_id"]))  # its other rows go with it
    connection.execute(sa.insert(RUNS), [run])
    modules_of_models = rows.modules(published)
    described, nights = staging.write_ops(connection, run["run_id"], rows.op_rows(published), published.clean)
    uses = sum(len(module.places) for module in modules_of_models.values())
    _modules(connection, modules_of_models, published.clean)
    models = list(rows.model_rows(published, modules_of_models))
    if models:
        connection.execute(sa.insert(MODELS), models)
    tests = bulk.insert(connection, OP_TESTS, rows.op_test_rows(published, run), clean=published.clean)
    bulk.insert(connection, STRUCTURES, rows.structure_rows(published))
    whole = list(whole_model_rows(published, run))
    if whole:
        connection.execute(sa.insert(WHOLE_MODELS), whole)
    _remember_errors(connection, published)
    written = {"nights": 1, "runs": 1, "models": len(models), "ops": described, "uses": uses, "op_tests": tests}
    del published, modules_of_models, models, whole  # what is counted is read from the database
    if before is not None and before != night["night_id"]:
        nights.append(before)  # the run left it
    for night_id in dict.fromkeys((*nights, night["night_id"])):
        count_night(connection, night_id, where)
    analyze_nights(connection)
    return written


def _earlier_night(connection: sa.Connection, run: Row, where: str) -> str | None:
    """The night that the run was in; None if the run is new. Raises InputError if another run has its id."""
    query = sa.select(RUNS.c.started, RUNS.c.host, RUNS.c.night_id).where(RUNS.c.run_id == run["run_id"])
    stored = connection.execute(query).one_or_none()
    if stored is None:
        return None
    if tuple(stored)[:2] != (run["started"], run["host"]):
        got = f"the same id in a run started {stored.started:%Y-%m-%d %H:%M:%S} on `{stored.host}`"
        raise InputError(
            where, f"run `{run['run_id']}` or nothing by its name", got, "another --run-dir for one of them"
        )
    return stored.night_id


def _night(connection: sa.Connection, published: Published, night: Row, where: str) -> None:
    """Writes the night if it is new. Raises InputError where its runs disagree on what is expected."""
    stored = (
        connection.execute(sa.select(NIGHTS).where(NIGHTS.c.night_id == night["night_id"])).mappings().one_or_none()
    )
    if stored is not None:
        # Ops that were left out may have run since, or an older version of this code did not tell the kinds apart.
        alone = "night" not in (stored["kind"], night["kind"])
        differ = [
            name for name in night if plain(stored[name]) != plain(night[name]) and not (alone and name == "kind")
        ]
        if differ:
            got = f"the same night with other {', '.join(differ)}"
            raise InputError(
                where, f"the night `{night['night_id']}` as published", got, "one night.json for all shards"
            )
        if alone:
            statement = sa.update(NIGHTS).where(NIGHTS.c.night_id == night["night_id"])
            connection.execute(statement.values(kind=night["kind"]))
        return
    connection.execute(sa.insert(NIGHTS), [night])
    if published.member is not None:
        cells = [{"night_id": night["night_id"], **cell._asdict()} for cell in published.member.night.cells()]
        if cells:
            connection.execute(sa.insert(NIGHT_CELLS), cells)


def _modules(connection: sa.Connection, modules_of_models: dict[str, rows.Module], clean: bool) -> None:
    """Writes the modules that no run before had."""
    new = {module.module_id: module for module in modules_of_models.values() if module.module_id is not None}
    stored_ids = sa.select(MODULE_OPS.c.module_id).where(MODULE_OPS.c.module_id.in_(list(new))).distinct()
    for module_id in connection.scalars(stored_ids).all():
        del new[module_id]
    for module in new.values():
        bulk.insert(connection, USES, rows.use_rows(module), clean=clean)
        bulk.insert(connection, MODULE_OPS, rows.module_op_rows(module), clean=clean)


def _remember_errors(connection: sa.Connection, published: Published) -> None:
    """Stores errors and limitations with the times when they were first and last seen."""
    started = published.record.started
    times = {"first_seen": started, "last_seen": started}
    errors: dict[str, Row] = {}
    limitations: dict[str, Row] = {}
    for test in latest(published.attempts):
        if test.error_signature:
            message = plain(test.error_message or test.crash_kind or "")
            stage = str(test.failed_stage or test.stage_reached)
            signature = test.error_signature
            errors.setdefault(signature, {"error_signature": signature, "stage": stage, "message": message, **times})
        if test.expected and not test.success:
            name = plain(test.expected)
            kind = name.partition(":")[0]
            limitations.setdefault(name, {"limitation": name, "kind": kind, **times})
    for table, values, first in ((ERRORS, errors, ("message", "stage")), (LIMITATIONS, limitations, ())):
        upsert(connection, table, list(values.values()), least=("first_seen",), most=("last_seen",), first=first)
