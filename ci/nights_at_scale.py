"""A database of many nights, made by SQL, and how long each view and each comparison takes on it.

`python ci/nights_at_scale.py URL --run RUN_DIR --nights 365` fills an empty SQLite or PostgreSQL database with that
run, copied night by night with other verdicts, and prints the seconds of publishing it and of each view with the
filters that a dashboard has by default (the last 30 nights, or the newest one where rows are single ops), of each the
95th percentile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import sqlalchemy as sa

BIN = Path(sys.executable).parent
SINGLE_OPS = ("night_ops", "night_failures", "model_blockers", "night_diff")
"""Views with a row per op: a dashboard shows one night of them."""
COPIED = ("night_series", "night_models", "night_counts", "night_pairs", "night_changes", "night_fixes", "night_curve")


def publish(run: Path, url: str) -> float:
    """Seconds that publishing the run takes, as a user calls it."""
    started = time.monotonic()
    subprocess.run([BIN / "opscope", "publish", run, "--to", url], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def multiply(engine: sa.Engine, nights: int) -> None:
    """Copies the one night that is there `nights` - 1 times into the past, a day apart, one in 97 verdicts changed."""
    inspector = sa.inspect(engine)
    columns = {table: [c["name"] for c in inspector.get_columns(table)]
               for table in ("nights", "runs", "models", "op_tests", *COPIED)}  # fmt: skip
    sqlite = engine.dialect.name == "sqlite"
    for back in range(1, nights):
        with engine.begin() as connection:
            first = connection.scalar(sa.text("SELECT night_id FROM nights ORDER BY started DESC LIMIT 1"))
            earlier = (
                f"strftime('%Y-%m-%d %H:%M:%f000', started, '-{back} days')" if sqlite
                else f"started - interval '{back} days'"
            )  # fmt: skip
            copy = f"|| '-{back:03}'"
            changed = {"night_id": f"night_id {copy}", "run_id": f"run_id {copy}", "started": earlier,
                       "kind": "'night'", "previous_night": f"'{first}-{back + 1:03}'",
                       "status": f"CASE WHEN {_digest('op_id', back, sqlite)} THEN 'crashed' ELSE status END",
                       }  # fmt: skip
            for table, names in columns.items():
                values = ", ".join(
                    changed[n] if n in changed and (n != "status" or table == "op_tests") else _quoted(n) for n in names
                )
                listed = ", ".join(map(_quoted, names))
                connection.execute(sa.text(
                    f"INSERT INTO {table} ({listed}) SELECT {values} FROM {table} WHERE night_id = :first"
                    if "night_id" in names else
                    f"INSERT INTO {table} ({listed}) SELECT {values} FROM {table} "
                    "WHERE run_id IN (SELECT run_id FROM runs WHERE night_id = :first)"
                ), {"first": first})  # fmt: skip
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("ANALYZE"))


def _quoted(name: str) -> str:
    return f'"{name}"'


def _digest(column: str, back: int, sqlite: bool) -> str:
    """True for one op in about 97, another one each night."""
    if sqlite:
        return f"(instr('0123456789abcdef', substr({column}, 1, 1)) * 16 + {back}) % 97 = 0"
    return f"(ascii({column}) * 16 + {back}) % 97 = 0"


def questions(engine: sa.Engine) -> dict[str, str]:
    """Name of each view -> the query that a dashboard asks of it by default."""
    found = {}
    with engine.connect() as connection:
        newest = connection.scalar(sa.text("SELECT night_id FROM nights ORDER BY started DESC LIMIT 1"))
        since = connection.scalars(sa.text("SELECT started FROM nights ORDER BY started DESC LIMIT 30")).all()[-1]
    for name in sorted(sa.inspect(engine).get_view_names()):
        if name in SINGLE_OPS:
            found[name] = f"SELECT COUNT(*), MAX(op_name) FROM {name} WHERE night_id = '{newest}'"
        elif name.startswith(("night_", "model_")):
            found[name] = f"SELECT * FROM {name} WHERE started >= '{since}'"
        elif name == "newest_ops":
            found[name] = "SELECT model, SUM(bad), SUM(uses) FROM newest_ops GROUP BY model"
    return found


def measure(engine: sa.Engine, rounds: int) -> list[tuple[str, float]]:
    """(view, 95th percentile of its seconds)."""
    found = []
    for name, query in questions(engine).items():
        times = []
        for _ in range(rounds):
            started = time.monotonic()
            with engine.connect() as connection:
                connection.execute(sa.text(query)).fetchmany(10_000)
            times.append(time.monotonic() - started)
        found.append((name, statistics.quantiles(times, n=20)[-1] if len(times) > 1 else times[0]))
    return found


def main() -> int:
    """Fills the database, unless `--keep` says that it is full, and prints what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--run", type=Path, help="the run that every night is a copy of")
    parser.add_argument("--nights", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    engine = sa.create_engine(options.url)
    told: dict[str, float] = {}
    if options.run is not None:
        told["publish"] = publish(options.run, options.url)
        started = time.monotonic()
        multiply(engine, options.nights)
        told["filled"] = time.monotonic() - started
    told |= dict(measure(engine, options.rounds))
    with engine.connect() as connection:
        rows = connection.scalar(sa.text("SELECT COUNT(*) FROM op_tests"))
    print(json.dumps({"op_tests": rows, "seconds": {name: round(value, 3) for name, value in told.items()}}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
