"""The tables of the first database, which 35 migrations had made before anything was released.

No database is made by it: a new one gets the tables of reports/database/schema.py. Those that it stands for are in
reports/tests/data/heads.
"""

revision = "0035"
down_revision = None
