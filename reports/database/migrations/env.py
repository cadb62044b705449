"""Alembic's entry: runs the chosen migrations on the connection that reports/database/database.py hands over."""

from __future__ import annotations

from alembic import context

from opscope.reports.database import schema_nights  # noqa: F401 - its tables join those of METADATA
from opscope.reports.database.schema import METADATA

connection = context.config.attributes["connection"]
# The caller has a transaction open: schema, views and rows of a first publish appear together or not at all.
context.configure(connection=connection, target_metadata=METADATA, render_as_batch=connection.dialect.name == "sqlite")
context.run_migrations()
