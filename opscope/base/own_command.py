"""The command line of opscope itself, for a process of its own."""

from __future__ import annotations

import sys


def own_command(*words: str) -> list[str]:
    """`opscope WORDS` in this interpreter, which looks for no module in the current folder."""
    return [sys.executable, "-P", "-m", "opscope.harness.cli.main", *words]
