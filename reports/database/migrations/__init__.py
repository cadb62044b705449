"""Alembic's migrations of the results database; run from reports/database/database.py, never by hand."""
