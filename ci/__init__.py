"""Checks and jobs that run around the project; they start command lines and import none of its rooms."""
