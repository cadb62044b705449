"""The folders of opscope's packages: next to this package in a checkout, inside it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of the package `opscope`."""

HOME = PACKAGE if (PACKAGE / "harness").is_dir() else PACKAGE.parent
"""The folder that holds the packages (`harness`, `models`, ...)."""


def room(name: str) -> Path:
    """The folder of a package or subpackage, such as `harness` or `harness/prepare`."""
    return (PACKAGE if name.partition("/")[0] == "base" else HOME) / name
