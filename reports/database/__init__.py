"""The results database: tables, migrations, views, stored questions, and the ways to open and read it.

The URL decides between SQLite and PostgreSQL. Every metric is a view here, so that command line, report and dashboards
agree.
"""
