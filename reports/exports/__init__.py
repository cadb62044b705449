"""Results for other programs: CSV, JUnit XML, Parquet, optest JSON, and pandas frames.

All of them export the same op tests, read from a run folder or from the database.
"""
