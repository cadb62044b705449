"""The results database: tables, migrations, views, stored questions, and the ways to open and read it.

SQLite or PostgreSQL by URL; every metric is a view here, so that command line, report and dashboards agree.
"""
