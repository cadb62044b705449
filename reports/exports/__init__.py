"""Results for other programs: CSV, JUnit XML, Parquet, optest JSON, and pandas frames.

All of them take the same op tests, from a run folder or from the database.
"""
