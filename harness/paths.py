"""Paths of ops in locations: how a value that a compiler made is known to stand for one of the program."""

from __future__ import annotations

ROOT = "main/"
"""What every path begins with (harness/split.py)."""


def path_of(location: str) -> str:
    """The path in a location that a compiler hands back, `main/12 (file:line)`; empty where there is none."""
    path = location.partition(" (")[0]
    return path if path.startswith(ROOT) else ""
