"""Checks and jobs for the project itself; most start command lines, some of `benchmarks` time functions of its rooms."""
