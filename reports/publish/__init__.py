"""A stored run into the database: idempotent, one transaction, and all that is counted of a night at that moment.

Runs whose database could not be reached wait in the spool.
"""
