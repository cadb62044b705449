"""Caps what is stored of an op's diagnostic."""

from __future__ import annotations

LIMIT = 4 * 1024 * 1024
"""Longest text of an artifact, in characters: a compiler may print the whole module once per pass."""


def capped(text: str) -> str:
    """The text, cut at LIMIT, with a last line that says so."""
    if len(text) <= LIMIT:
        return text
    return f"{text[:LIMIT]}\n[cut here: {LIMIT:,} of {len(text):,} characters]\n"
