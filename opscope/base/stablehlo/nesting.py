"""How deep the regions of a program may lie in one another."""

from __future__ import annotations

MOST_NESTED = 64
"""Regions (branches, bodies of loops) in one another that are compiled and evaluated. Of 150, XLA's compiler needs
40 s for each level, and Python's recursion ends."""


def too_deep(depth: int) -> str:
    """Why an op with regions nested so deep is neither compiled nor evaluated; empty if it is."""
    if depth <= MOST_NESTED:
        return ""
    return (
        f"expected regions nested at most {MOST_NESTED} deep, got {depth}; try fewer branches and loops in one another"
    )
