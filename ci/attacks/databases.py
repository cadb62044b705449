"""Databases that are damaged, older or newer than the code, and SQL that reaches out of the results.

OPSCOPE_MEASURE_POSTGRES names a PostgreSQL server for the statements, with a superuser's URL: there each statement is
tried on it as well. A statement ends badly if a file appears, a table changes or a file's content is shown.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from ci.attacks.attempt import Attempt
from ci.attacks.called import judged, opscope
from ci.attacks.damage import spoiled
from ci.scratch_postgres import database

SAMPLE, FULL = 4, 360

FILE = Path(__file__).with_name("statements.txt")
STATEMENTS = tuple(
    line.encode().decode("unicode_escape") for line in FILE.read_text().splitlines() if not line.startswith("#")
)
"""What must not happen; the file says more."""

SECRET = "content-of-a-file-of-the-server"


def _spoil(data: bytearray, draw: random.Random, way: str) -> None:
    data[:] = spoiled(bytes(data), draw, (way,))[1]


def _head(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(100)] = draw.randrange(256)


def _page(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(data) // 4096) * 4096
    data[at : at + 4096] = bytes(4096)


def _noise(data: bytearray, draw: random.Random) -> None:
    data[:] = draw.randbytes(draw.randrange(9000))


DAMAGE: dict[str, Callable[[bytearray, random.Random], None]] = {
    "a flipped bit": lambda data, draw: _spoil(data, draw, "flip"),
    "a cut file": lambda data, draw: _spoil(data, draw, "cut"),
    "a damaged head": _head,
    "a page of zeros": _page,
    "no database": _noise,
}

CHANGES = {
    "a newer schema": "UPDATE alembic_version SET version_num = '9999'",
    "an older schema": "UPDATE alembic_version SET version_num = '0003'",
    "a schema of nobody": "UPDATE alembic_version SET version_num = '0000x'",
    "a schema that is no text": "UPDATE alembic_version SET version_num = x'00ff'",
    "no schema": "DELETE FROM alembic_version",
    "no settings": "DROP TABLE opscope_settings",
    "JSON that is none": "UPDATE runs SET options = '{'",
    "other JSON": "UPDATE runs SET options = '[1]', versions = '5'",
    "a time that is none": "UPDATE runs SET started = 'yesterday'",
    "a night's time that is none": "UPDATE nights SET started = 'x'",
    "text that is no UTF-8": "UPDATE op_tests SET error_message = CAST(x'ff00fe' AS TEXT)",
    "words for numbers": "UPDATE op_tests SET cycles = 'many', uses = 'x', pcc = x'00'",
    "a status of nobody": "UPDATE op_tests SET status = 'nope'",
    "numbers beyond 64 bits": "UPDATE op_tests SET cycles = 9e300",
    "a digest that is none": "UPDATE runs SET published = 'x'",
    "a message that acts": "UPDATE op_tests SET error_message = char(27) || char(7) || char(8238), op_name = char(27)",
    "views of somebody else": "UPDATE opscope_settings SET value = 'runs; DROP TABLE runs' WHERE name = 'views'",
}

READERS = (
    ("sql", "model_coverage"),
    ("db", "stats"),
    ("diff",),
    ("unblock",),
    ("status",),
    ("readiness", "mnist_mlp"),
    ("report",),
    ("show", "mnist_mlp"),
    ("db", "upgrade"),
    ("db", "prune", "--keep", "1d"),
    ("db", "alias", "0" * 16, "1" * 16),
    ("export", "--format", "csv", "-o", "-"),
)


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """A third statements on SQLite, a third on PostgreSQL if there is a server, the rest damage."""
    draw = random.Random(seed)
    good = folder / "good.sqlite"
    _fill(folder, f"sqlite:///{good}")
    (folder / "in").write_text(SECRET)
    with database() as server:
        urls = {
            "SQL on SQLite": f"sqlite:///{folder}/asked.sqlite",
            **({"SQL on PostgreSQL": server} if server else {}),
        }
        if server:
            _fill(folder, server)
        asked = [(kind, statement) for statement in STATEMENTS for kind in urls]
        draw.shuffle(asked)
        for number in range(count):
            if number % 3 < len(urls) and asked:
                kind, statement = asked.pop()
                yield _asked(folder, kind, urls[kind], statement, good.read_bytes())
            else:
                yield _damaged(folder, number, good.read_bytes(), draw)


def _fill(folder: Path, url: str) -> None:
    filled = opscope(folder, "demo", "--nights", "2", "--to", url, "--runs", f"runs-{len(url)}", seconds=600)
    if filled.code:
        raise RuntimeError(filled.text)


def _asked(folder: Path, kind: str, url: str, statement: str, good: bytes) -> Attempt:
    out, asked = folder / "out", folder / "asked.sqlite"
    asked.write_bytes(good)
    out.unlink(missing_ok=True)
    text = statement.replace("{out}", str(out)).replace("{in}", str(folder / "in"))
    calls = [opscope(folder, "sql", text.replace("\0", " "), "--db", url, seconds=60)]
    spoiled = "a file appeared" if out.exists() else ""
    spoiled = spoiled or ("the database changed" if asked.read_bytes() != good else "")
    spoiled = spoiled or ("the content of a file was shown" if SECRET in calls[0].text else "")
    if "PostgreSQL" in kind and calls[0].code == 0:  # what was refused did nothing
        after = opscope(folder, "sql", "SELECT COUNT(*) AS n FROM runs", "--csv", "--db", url, seconds=60)
        spoiled = spoiled or ("" if after.code == 0 and after.text != "n\n0\n" else f"runs: {after.text}")
    return judged(kind, text, calls, spoiled)


def _damaged(folder: Path, number: int, good: bytes, draw: random.Random) -> Attempt:
    what = draw.choice((*DAMAGE, *CHANGES))
    bad = folder / f"{number}.sqlite"
    if what in DAMAGE:
        data = bytearray(good)
        DAMAGE[what](data, draw)
        bad.write_bytes(data)
    else:
        bad.write_bytes(good)
        with contextlib.closing(sqlite3.connect(bad)) as connection, connection:
            connection.execute(CHANGES[what])
    url = f"sqlite:///{bad}"
    calls = [opscope(folder, *words, "--db", url, seconds=60) for words in draw.sample(READERS, 2)]
    bad.unlink(missing_ok=True)
    return judged("damage" if what in DAMAGE else "another database", what, calls)
