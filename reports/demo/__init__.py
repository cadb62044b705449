"""`opscope demo`: invented nights, replayed from recorded runs of this project and marked as demo data."""

SAID = "Demo data: these results are made up."
"""What every page and every answer of a terminal says of it."""
