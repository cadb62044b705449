"""Creates a PostgreSQL role that may read the results and nothing else, for dashboards."""

from __future__ import annotations

import os
import re

import sqlalchemy as sa

from opscope.harness.record.errors import InputError
from opscope.reports.database.database import open_database, parse_url, shown


def read_only_role(url: str, name: str, password_env: str | None = None) -> str:
    """Makes a PostgreSQL role that may read the results and nothing else; what was done, in one line.

    Raises InputError for SQLite, whose readers open the file read-only, and for a name that is no plain word.
    """
    if parse_url(url, "--db").get_backend_name() != "postgresql":
        hint = "sqlite:///file:PATH?mode=ro&uri=true, which reads without a role"
        raise InputError("--db", "a PostgreSQL database", "SQLite", hint)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name):
        raise InputError("NAME", "letters, digits and underscores", f"`{name}`", "opscope_reader")
    password = None
    if password_env is not None:
        password = os.environ.get(password_env)
        if not password:
            raise InputError("--password-env", "a variable that is set", f"no `{password_env}`", f"{password_env}=...")
    with open_database(url, "--db") as connection:
        quote = connection.dialect.identifier_preparer.quote_identifier
        has_role = connection.scalar(sa.text("SELECT 1 FROM pg_roles WHERE rolname = :name"), {"name": name})
        database = quote(str(connection.scalar(sa.text("SELECT current_database()"))))
        schema = quote(str(connection.scalar(sa.text("SELECT current_schema()"))))
        quoted = quote(name)
        steps = [
            *([] if has_role else [f"CREATE ROLE {quoted} LOGIN"]),
            f"ALTER ROLE {quoted} SET default_transaction_read_only = on",
            f"ALTER ROLE {quoted} SET statement_timeout = '60s'",
            f"GRANT CONNECT ON DATABASE {database} TO {quoted}",
            f"GRANT USAGE ON SCHEMA {schema} TO {quoted}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {quoted}",
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {quoted}",
        ]
        if password is not None:
            # SQLAlchemy's literals double percent signs, for drivers that take parameters.
            from psycopg.sql import Literal  # pyright: ignore[reportMissingImports] - an extra

            literal = Literal(password).as_string(None)
            steps.insert(0 if has_role else 1, f"ALTER ROLE {quoted} PASSWORD {literal}")
        plainly = connection.execution_options(no_parameters=True)  # a percent sign in a password is no parameter
        for step in steps:
            plainly.exec_driver_sql(step)
    return f"role {name} may read {shown(parse_url(url))}" + ("" if has_role else " (new)")
