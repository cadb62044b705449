"""Small databases as earlier opscopes left them, one for each head of the migrations.

`python -m opscope.reports.tests.stored_head` stores those that are lacking, each by a migration from the one before.
`data/heads/NUMBER.tar.xz` holds `results.sqlite`, and `results.pg.sql`, the same in PostgreSQL. It has two nights of
`mnist_mlp`; three ops fail in the second. `data/heads/runs.tar.xz` holds the second one's run folder
(`runs/<night>/`), and a third night that waits in the spool (`spool/<night>/`).
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa
from alembic import command

from opscope.reports.database.database import alembic_config
from opscope.reports.database.files import numbers

HEADS = Path(__file__).parent / "data" / "heads"
SQLITE, POSTGRES = "results.sqlite", "results.pg.sql"


def stored() -> list[str]:
    """The heads whose databases are stored, oldest first."""
    return sorted(path.name.partition(".")[0] for path in HEADS.glob("[0-9]*.tar.xz"))


def lacking() -> list[str]:
    """The heads that a migration follows and whose databases are not stored."""
    return sorted(set(numbers()[:-1]) - set(stored()))


def extract(number: str, folder: Path) -> None:
    """Writes the databases of a head, runs and spool to `folder`."""
    for name in (number, "runs"):
        with tarfile.open(HEADS / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")


def store(number: str) -> Path:
    """Stores the databases of a head, without views, which depend on more than migrations; the archive."""
    from opscope.reports.tests import postgres_server

    server = postgres_server.shared()
    with TemporaryDirectory() as name:
        folder = Path(name)
        extract(max(each for each in stored() if each < number), folder)
        url = server.database()
        server.restore(url, folder / POSTGRES)
        for each, cascade in ((f"sqlite:///{folder / SQLITE}", ""), (url, "CASCADE")):
            engine = sa.create_engine(each)
            with engine.begin() as connection:
                for view in sa.inspect(connection).get_view_names():
                    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {view} {cascade}")
                command.upgrade(alembic_config(connection), number)
            engine.dispose()
        server.dump(url, folder / POSTGRES)
        target = HEADS / f"{number}.tar.xz"
        with tarfile.open(target, "w:xz") as archive:
            for file in (SQLITE, POSTGRES):
                archive.add(folder / file, file)
    return target


if __name__ == "__main__":
    for number in lacking():
        print(f"stored {store(number)}")
