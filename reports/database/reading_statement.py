"""Confines a query of a user to reading the database, whoever's URL it comes with.

A read-only transaction is not enough: a superuser's `SELECT` reads files of the server and `COPY` runs programs there.
So a query is one statement that begins with a word that reads, and beyond what the database enforces by itself

- SQLite's authorizer allows reading tables, and the functions that SQLite itself calls innocuous,
- in PostgreSQL the transaction gives up the rights of a superuser for those of `pg_read_all_data`, and a statement that
  names a function with effects is refused. The server's own catalogue knows these: a function that reads files, runs
  SQL, sends signals or changes settings is VOLATILE. Names are looked for in the whole text, also in what may be a
  string, because nothing here parses SQL: what is refused is too much rather than too little.
"""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, Any

from opscope.harness.record.errors import InputError

if TYPE_CHECKING:
    import sqlalchemy as sa

READING = {
    "sqlite": ("SELECT", "WITH", "VALUES", "EXPLAIN", "PRAGMA"),
    "postgresql": ("SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN"),
}
"""Database -> the words that a statement may begin with."""

CURSORS = ("SELECT", "WITH", "VALUES", "TABLE")
"""Words that begin a statement for which PostgreSQL has cursors."""

READ_ALL = "pg_read_all_data"
"""PostgreSQL's role (14 and later) that reads all tables, and neither writes, reads files nor runs programs."""

HARMLESS = (
    *("random", "clock_timestamp", "timeofday", "gen_random_uuid", "bernoulli", "system"),
    *("pg_relation_size", "pg_table_size", "pg_indexes_size", "pg_total_relation_size", "pg_database_size"),
)
"""Functions of PostgreSQL that are VOLATILE and only return something."""

SECRETS = ("pg_authid", "pg_shadow", "pg_user_mapping", "pg_user_mappings", "pg_subscription")
"""Tables of PostgreSQL that hold passwords."""

EFFECTS = r"""
SELECT DISTINCT proname FROM pg_catalog.pg_proc
WHERE (provolatile = 'v' AND proname <> ALL (%(harmless)s)) OR proname LIKE '%%\_to\_xml%%'
"""
"""Functions with effects, and those that take the name of anything to read, or SQL."""

SEARCH_PATH = """
SELECT string_agg(quote_ident(name), ', ' ORDER BY place)
FROM unnest(current_schemas(false)) WITH ORDINALITY AS searched (name, place)
"""

PRAGMAS = frozenset(
    (
        *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list"),
        *("database_list", "compile_options", "function_list", "integrity_check", "quick_check"),
    )
)
"""Pragmas of SQLite that describe or check something."""

LIMITS = {sqlite3.SQLITE_LIMIT_LENGTH: 32 << 20, sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000}
"""Bytes of the longest value and pattern of SQLite, which interrupts no function: a text of 1 GB takes a minute."""

INNOCUOUS = 0x200000
"""SQLITE_INNOCUOUS: the flag of functions that only compute. SQLite 3.40 does not set it for its JSON functions."""
_JSON = re.compile(r"json\w*\Z|->>?\Z")

_ESCAPED_NAME = re.compile('u&"', re.IGNORECASE)
_BLANK = re.compile(r"[\s(]+")
_LINE_END = re.compile(r"[\r\n]")
_MARK = re.compile(r"/\*|\*/")
_WORD = re.compile(r"\w*")


def confine(connection: sa.Connection, query: str) -> None:
    """Makes sure that `query` can only read when it is run next on `connection`. Raises InputError if it is refused."""
    kind = connection.dialect.name
    refuse_writing(kind, query)
    driver = connection.connection.dbapi_connection
    if kind == "sqlite":
        confine_sqlite(driver)
    else:
        confine_postgresql(driver, query)


def refuse_writing(kind: str, query: str) -> None:
    """Raises InputError for a statement that does not begin with a word that reads; `kind`: the database's, a key of
    READING."""
    word = first_word(query, nested=kind == "postgresql").upper()
    if word not in READING[kind]:
        *others, last = READING[kind]
        raise InputError(
            "QUERY", f"one statement that reads ({', '.join(others)} or {last})", f"`{word}`", "SELECT ..."
        )


def first_word(query: str, *, nested: bool) -> str:
    """The first word of a statement, after blanks, parentheses and comments; `nested`: comments may hold comments."""
    place = 0
    while True:
        if blank := _BLANK.match(query, place):
            place = blank.end()
        elif query.startswith("--", place):
            end = _LINE_END.search(query, place)
            place = end.end() if end else len(query)
        elif query.startswith("/*", place):
            place = _end_of_comment(query, place, nested)
        else:
            word = _WORD.match(query, place)
            return word[0] if word and word[0] else query[place : place + 1]


def _end_of_comment(query: str, start: int, nested: bool) -> int:
    depth = 0
    for mark in _MARK.finditer(query, start):
        depth = depth - 1 if mark[0] == "*/" else depth + 1 if nested else 1
        if depth == 0:
            return mark.end()
    return len(query)


def confine_sqlite(driver: Any) -> None:
    """Lets what runs next on a connection of Python's `sqlite3` read tables and compute, and do nothing else."""
    for limit, most in LIMITS.items():
        driver.setlimit(limit, most)
    listed = driver.execute("SELECT name FROM pragma_function_list WHERE flags & ?", (INNOCUOUS,)).fetchall()
    functions = {name for (name,) in listed}
    reading = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}

    def allowed(action: int, first: str | None, second: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_FUNCTION:
            fine = str(second).lower() in functions or _JSON.match(str(second)) is not None
        elif action == sqlite3.SQLITE_PRAGMA:
            fine = str(first).lower() in PRAGMAS
        else:
            fine = action in reading
        return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY

    driver.set_authorizer(allowed)


def confine_postgresql(connection: Any, query: str) -> None:
    """Lets what runs next in the transaction of a `psycopg.Connection` read the results. Raises InputError for a query
    that names what does more than that."""
    effects = connection.execute(EFFECTS, {"harmless": list(HARMLESS)}).fetchall()
    for name in (*SECRETS, *(name for (name,) in effects)):
        if re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", query, re.IGNORECASE):
            hint = "the query without it, or psql"
            raise InputError("QUERY", "a query that only reads the results", f"one that names `{name}`", hint)
    if _ESCAPED_NAME.search(query):
        raise InputError("QUERY", "names without escapes", 'U&"', 'the name as it is, between "')
    member = "SELECT pg_has_role(oid, 'MEMBER') FROM pg_catalog.pg_roles WHERE rolname = %s"
    if connection.execute(member, [READ_ALL]).fetchone() == (True,):
        # Names without a schema keep their meaning: "$user" in the search path is another name from here on.
        (path,) = connection.execute(SEARCH_PATH).fetchone()
        connection.execute(f"SET LOCAL search_path TO {path or 'public'}".encode())
        connection.execute(f"SET LOCAL ROLE {READ_ALL}".encode())
