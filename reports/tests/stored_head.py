"""Small databases as earlier opscopes left them, one for each head of the migrations: `python -m
opscope.reports.tests.stored_head` writes that of today's head, which is needed once a migration follows it.

`data/heads/NUMBER.tar.xz` holds `results.sqlite`, and `results.pg.sql`, the same in PostgreSQL. It has two nights of
`mnist_mlp`; three ops fail in the second. `data/heads/runs.tar.xz` holds the second one's run folder
(`runs/<night>/`), and a third night that waits in the spool (`spool/<night>/`).
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from opscope.reports.database.database import open_database
from opscope.reports.database.files import head, numbers
from opscope.reports.tests import postgres_server

HEADS = Path(__file__).parent / "data" / "heads"
SQLITE, POSTGRES = "results.sqlite", "results.pg.sql"


def stored() -> list[str]:
    """The heads whose databases are stored, oldest first."""
    return sorted(path.name.partition(".")[0] for path in HEADS.glob("[0-9]*.tar.xz"))


def extract(number: str, folder: Path) -> None:
    """Writes the databases of a head, runs and spool to `folder`."""
    for name in (number, "runs"):
        with tarfile.open(HEADS / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")


def store() -> Path:
    """Stores the databases of today's head, upgraded from those of the one before it; the archive."""
    server = postgres_server.shared()
    with TemporaryDirectory() as name:
        folder = Path(name)
        extract(stored()[-1], folder)
        url = server.database()
        server.restore(url, folder / POSTGRES)
        for each in (f"sqlite:///{folder / SQLITE}", url):
            with open_database(each):
                pass
        server.dump(url, folder / POSTGRES)
        target = HEADS / f"{head()}.tar.xz"
        with tarfile.open(target, "w:xz") as archive:
            for file in (SQLITE, POSTGRES):
                archive.add(folder / file, file)
    return target


def lacking() -> list[str]:
    """The heads before today's whose databases are not stored."""
    return sorted(set(numbers()[:-1]) - set(stored()))


if __name__ == "__main__":
    if head() not in stored():
        print(f"stored {store()}")
