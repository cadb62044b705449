"""Writes the migration of what records or tables have anew: `python -m opscope.reports.commands.new_migration WHAT`.

It is made from the difference between the tables as they should be and a database that all migrations have made. A new
column that may not be NULL gets the default of its field for the rows of before.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
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

NOT_IN_METADATA = (SETTINGS.name, "ix_ops_label")
"""What the database has and METADATA does not: a table of its own, and an index that SQLAlchemy cannot read back."""


def changes(connection: sa.Connection) -> list[ops.MigrateOperation]:
    """What a database that all migrations have made still lacks, in Alembic's operations."""
    context = MigrationContext.configure(
        connection, opts={"include_object": lambda _, name, *__: name not in NOT_IN_METADATA}
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=f"Skipped unsupported reflection of .* {NOT_IN_METADATA[1]}")
        upgrade = produce_migrations(context, METADATA).upgrade_ops
    return [] if upgrade is None else list(upgrade.ops)


def write(what: str) -> Path:
    """Writes the migration and returns its file. Raises InputError where there is nothing new."""
    with TemporaryFolder("migration") as folder, open_database(f"sqlite:///{folder}/db.sqlite") as connection:
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
