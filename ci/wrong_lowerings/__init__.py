"""Lowerings that are wrong on purpose, and whether a verdict notices them: `wrong_lowerings.yaml`."""
