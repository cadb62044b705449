"""Versions of installed packages are what importlib says, and an absent package is none."""

from __future__ import annotations

from importlib import metadata

import pytest

from opscope.base import plugins


def test_versions_are_those_that_importlib_says() -> None:
    for package in ("numpy", "jaxlib", "ml-dtypes", "ml_dtypes", "opscope"):
        assert plugins.version(package) == metadata.version(package)
    with pytest.raises(metadata.PackageNotFoundError):
        plugins.version("no-such-package")
