"""A database of many nights: `python ci/nights_at_scale.py URL --nights 365 --op-tests 27400`.

The two newest nights are published as usual and differ in a tenth of their failures. The earlier ones are copies of
these two in turn, row by row and with all their counts, one day apart. So every row of every table is as publishing
wrote it, except for its night and its time. URL names an empty SQLite or PostgreSQL database; an interrupted fill
continues where it stopped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import big_run
import sqlalchemy as sa

BIN = Path(sys.executable).parent
MODELS = 60
NEWEST_ONLY = "night_newest_ops"
"""The table that has rows of the newest nights alone."""
PLACED = ("night_id", "run_id", "superseded_by")
"""Columns with the night or run of a row."""


def fill(url: str, nights: int, op_tests: int) -> int:
    """Fills the database with `nights` nights of `op_tests` op tests each; returns how many op tests it then has."""
    engine = sa.create_engine(url)
    if not sa.inspect(engine).has_table("nights"):
        publish(url, op_tests)
    with engine.connect() as connection:
        newest = connection.scalars(sa.text("SELECT night_id FROM nights ORDER BY started DESC LIMIT 2")).all()
    with _without_indexes(engine):
        for back in range(2, nights):
            _copy(engine, newest, back, oldest=back == nights - 1)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if engine.dialect.name == "postgresql":  # its server does that by itself in time; not during a measurement
            connection.execute(sa.text("VACUUM ANALYZE"))
            connection.execute(sa.text("CHECKPOINT"))
        return connection.scalar(sa.text("SELECT COUNT(*) FROM op_tests")) or 0


def publish(url: str, op_tests: int, today: datetime | None = None) -> None:
    """Publishes three nights up to today and removes the first, which is only there for comparison."""
    today = today or datetime.now(UTC)
    with tempfile.TemporaryDirectory() as scratch:
        for ago in (2, 1, 0):
            date = f"{today - timedelta(days=ago):%Y-%m-%d}"
            run = Path(scratch) / f"big-{date}"
            big_run.make(run, op_tests, MODELS, date, ago % 2)
            subprocess.run([BIN / "opscope", "publish", run, "--to", url], check=True, stdout=subprocess.DEVNULL)
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        nights = connection.scalars(sa.text("SELECT night_id FROM nights ORDER BY started DESC")).all()
        before = {"night": nights[2], "copy": _name(nights, 2)}
        for table in ("runs", "nights"):
            connection.execute(sa.text(f"DELETE FROM {table} WHERE night_id = :night"), {"night": nights[2]})
        connection.execute(
            sa.text("UPDATE night_series SET previous_night = :copy WHERE previous_night = :night"), before
        )


def _name(newest: Sequence[str], back: int) -> str:
    """The id of the night `back` days before the newest."""
    return newest[back] if back < 2 else f"{newest[back % 2]}-{back:03}"


def _copy(engine: sa.Engine, newest: Sequence[str], back: int, oldest: bool) -> None:
    """Copies a night to `back` days before the newest, in one transaction; does nothing if that night exists."""
    sqlite = engine.dialect.name == "sqlite"
    days, source = back - back % 2, newest[back % 2]
    earlier = (
        (lambda name: f"strftime('%Y-%m-%d %H:%M:%f000', {name}, '-{days} days')")
        if sqlite
        else (lambda name: f"{name} - interval '{days} days'")
    )
    before = "" if oldest else _name(newest, back + 1)
    shifted = {
        **{name: f"CASE {name} WHEN '' THEN '' ELSE {name} || '-{back:03}' END" for name in PLACED},
        **{name: earlier(name) for name in ("started", "ended", "date")},
        "previous_night": f"'{before}'",
    }
    date = f"substr({earlier('started')}, 1, 16)" if sqlite else f"to_char({earlier('started')}, 'YYYY-MM-DD HH24:MI')"
    with engine.begin() as connection:
        query = sa.text("SELECT 1 FROM nights WHERE night_id = :night")
        if connection.scalar(query, {"night": _name(newest, back)}):
            return
        if not sqlite:  # the copied rows refer only to existing rows
            connection.execute(sa.text("SET LOCAL session_replication_role = replica"))
        for table, columns in _tables(connection):
            changed = {**shifted, "label": date} if table == "nights" else shifted
            which = (
                "night_id = :night"
                if "night_id" in columns
                else "run_id IN (SELECT run_id FROM runs WHERE night_id = :night)"
            )
            values = ", ".join(changed.get(name, f'"{name}"') for name in columns)
            listed = ", ".join(f'"{name}"' for name in columns)
            statement = f"INSERT INTO {table} ({listed}) SELECT {values} FROM {table} WHERE {which}"
            connection.execute(sa.text(statement), {"night": source})


def _tables(connection: sa.Connection) -> Iterator[tuple[str, list[str]]]:
    """Every table whose rows belong to a night or a run, with its columns; referenced tables come first."""
    inspector = sa.inspect(connection)
    for table, _ in inspector.get_sorted_table_and_fkc_names():
        columns = [column["name"] for column in inspector.get_columns(table)] if table else []
        if table and table != NEWEST_ONLY and {"night_id", "run_id"} & set(columns):
            yield table, columns


@contextmanager
def _without_indexes(engine: sa.Engine) -> Iterator[None]:
    """Drops PostgreSQL's indexes on op tests and creates them again, except the two that finding rows needs."""
    if engine.dialect.name == "sqlite":
        yield
        return
    query = sa.text(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'op_tests' AND indexname NOT LIKE 'pk%' "
        "AND indexname NOT LIKE '%night_id%'"
    )
    with engine.begin() as connection:
        indexes = connection.execute(query).all()
        for name, _ in indexes:
            connection.execute(sa.text(f"DROP INDEX {name}"))
    yield
    with engine.begin() as connection:
        connection.execute(sa.text("SET LOCAL maintenance_work_mem = '512MB'"))
        for _, definition in indexes:
            connection.execute(sa.text(definition))


def main() -> int:
    """Fills the database and prints how large it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--op-tests", type=int, default=27_400, help="of each night")
    options = parser.parse_args()
    count = fill(options.url, options.nights, options.op_tests)
    print(f"{count:,} op tests of {options.nights} nights")
    return 0


if __name__ == "__main__":
    sys.exit(main())
