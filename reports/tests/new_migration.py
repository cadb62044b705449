"""Writes the migration of what records or tables have anew: `python -m opscope.reports.tests.new_migration WHAT`.

It is made from the difference between the tables as they should be and the newest of the stored databases
(stored_head.py) after all migrations that follow. A new column that may not be NULL gets the default of its field for
the rows of before.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from alembic.operations import ops
from alembic.script import ScriptDirectory

from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.record.errors import InputError
from opscope.reports.database import schema_nights, whole_models  # noqa: F401 - their tables join those of METADATA
from opscope.reports.database.database import SETTINGS, alembic_config, open_database
from opscope.reports.database.files import head
from opscope.reports.database.schema import METADATA
from opscope.reports.records.columns import BEFORE
from opscope.reports.tests import stored_head

LEFT_OUT = (SETTINGS.name, "ix_ops_label")
"""A table that METADATA does not have, and an index that SQLAlchemy cannot read back."""


def changes(connection: sa.Connection) -> list[ops.MigrateOperation]:
    """What a database lacks of the tables as they should be, in Alembic's operations."""
    context = MigrationContext.configure(connection, opts={"include_object": lambda _, name, *__: name not in LEFT_OUT})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=f".*{LEFT_OUT[-1]}")
        upgrade = produce_migrations(context, METADATA).upgrade_ops
    return [] if upgrade is None else list(upgrade.ops)


@contextmanager
def migrated(number: str) -> Iterator[sa.Connection]:
    """A copy of the stored database of a head, up to date."""
    with TemporaryFolder("migration") as folder:
        stored_head.extract(number, Path(folder))
        with open_database(f"sqlite:///{folder}/{stored_head.SQLITE}") as connection:
            yield connection


def write(what: str) -> Path:
    """Writes the migration and returns its file. Raises InputError where there is nothing new."""
    with migrated(stored_head.stored()[-1]) as connection:
        operations = changes(connection)
        if not operations:
            raise InputError("new_migration", "fields or tables that no migration makes", "none", "adding one first")
        for change in operations:
            _with_defaults(change)
        lines = [line for line in render_python_code(ops.UpgradeOps(operations)).splitlines() if "# ###" not in line]
        code = "\n".join(lines).strip()  # without what Alembic says of itself
        script = ScriptDirectory.from_config(alembic_config(connection))
        script_file = script.generate_revision(
            f"{int(head()) + 1:04}", f"{what.rstrip('.')}.", head=head(), upgrades=code
        )
    assert script_file is not None
    if util.find_spec("ruff"):
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", script_file.path], check=False)
    return Path(script_file.path)


def _with_defaults(change: Any) -> None:
    """Gives new columns that may not be NULL what the rows of before get."""
    for inner in getattr(change, "ops", ()):
        column = getattr(inner, "column", None)
        if isinstance(inner, ops.AddColumnOp) and column is not None and not column.nullable and BEFORE in column.info:
            before = column.info[BEFORE]
            text = str(int(before)) if isinstance(before, bool) else str(before)
            column.server_default = sa.DefaultClause(text)


def main(arguments: list[str]) -> int:
    """The program. Exit code 2: bad input."""
    try:
        if not (arguments and arguments[0].strip()):
            raise InputError("new_migration", "what is new, in a sentence", "nothing", "'How wide a car is'")
        write(arguments[0].strip())  # Alembic says which file
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
