"""Wheels of made-up releases, and a folder of them in place of a package index: pip itself runs, without a network."""

from __future__ import annotations

import zipfile
from pathlib import Path

import jaxlib
import pytest

from opscope.harness.cache import environments

INSTALLED = f"__path__.append({str(Path(jaxlib.__file__).parent)!r})\n"
"""A package with the modules of the jaxlib that is installed."""
MADE = (2026, 3, 7, 12, 0, 0)
"""When they were made."""


def wheel(folder: Path, name: str, version: str, files: dict[str, str], needs: str = "") -> Path:
    """Writes a wheel; returns its path."""
    path = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    about = f"{name.replace('-', '_')}-{version}.dist-info"
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    metadata = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in (files | {f"{about}/{file}": text for file, text in metadata.items()}).items():
            archive.writestr(zipfile.ZipInfo(file, MADE), content)
    return path


def only_index(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Has pip know the wheels of a folder alone."""
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(folder))
    patch.setenv("PIP_CONFIG_FILE", "/dev/null")
    environments._found.cache_clear()
