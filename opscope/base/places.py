"""The folders of the rooms: next to this package in a checkout, inside it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of the package `opscope`."""

HOME = PACKAGE if (PACKAGE / "harness").is_dir() else PACKAGE.parent
"""The folder that holds the rooms (`harness`, `models`, ...)."""


def room(name: str) -> Path:
    """The folder of a room, of `base`, or of a package in one of them: `harness/prepare`."""
    return (PACKAGE if name.partition("/")[0] == "base" else HOME) / name
