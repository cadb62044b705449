"""Night by cause: what broke, in which nights and series, since which commit, whose it is, and what to do first.

The dashboard server (`/night/`) and report.html show the same rows. `grid.py` needs Python's standard library alone:
Superset's own interpreter loads it from this folder, together with the template and the style of the rows.
"""
