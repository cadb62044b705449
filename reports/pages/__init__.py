"""Pages for people: report.html, a night's page, and the comparisons in the terminal.

Values come from `compare` and `database`; templates and scripts are in `assets`.
"""
