"""The command line of a sweep, for what in this folder starts one."""

from __future__ import annotations

import sys

WITHOUT = ("-p", "no:cacheprovider", "-p", "no:benchmark")
SWEEP = (sys.executable, "-m", "pytest", *WITHOUT, "--op-by-op", "-q", "--no-report")


def sweep_command(options: str = "", *words: str) -> list[str]:
    """A sweep with options, which are words without blanks, and with more words."""
    return [*SWEEP, *options.split(), *words]
