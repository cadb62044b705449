"""Publishes stored runs to the database: idempotent, in one transaction, with all counts of the night.

Runs whose database could not be reached wait in the spool.
"""
