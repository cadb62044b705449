"""Installs Apache Superset, provisions it from files, and serves the results database with it.

Only cli.py and results.py import rooms other than `base`; the rest shares only the database with the project.
"""
