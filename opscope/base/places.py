"""The folders of opscope's packages: inside this package in a wheel, beside it in a checkout, whose links to them some
systems make files of (Windows)."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The folder of the package `opscope`."""

HOME = (PACKAGE / "harness").resolve().parent if (PACKAGE / "harness").is_dir() else PACKAGE.parent
"""The folder that holds the packages (`harness`, `models`, ...)."""


def room(name: str) -> Path:
    """The folder of a package or subpackage, such as `harness` or `harness/prepare`."""
    return (PACKAGE if name.partition("/")[0] == "base" else HOME) / name
