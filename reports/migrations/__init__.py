"""Alembic's migrations of the results database; run from reports/database.py, never by hand."""
