"""Night by cause: what broke, in which nights and series, since which commit, whose it is, and what to do first.

The dashboard server (`/night/`) and report.html show the same rows. The modules need Python's standard library alone,
and not each other: Superset's own interpreter loads them from this folder, with the rows' template and style.
"""
