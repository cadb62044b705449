"""What every page and every answer of a terminal says of demo data."""

SAID = "Demo data: these results are made up."
