"""Apache Superset over the results database: installed, provisioned from files, served.

The room imports nothing of ours but in its door, cli.py: what it shares with the project is the database.
"""
