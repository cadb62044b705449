"""Checks and jobs for the project itself; they start command lines and import none of its rooms."""
