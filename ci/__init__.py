"""Checks and jobs for the project itself. Most start command lines; benchmarks may time functions of the rooms."""
