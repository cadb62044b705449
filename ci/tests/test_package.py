"""An installed wheel holds every file that the rooms read: the package data of pyproject.toml names them all."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("opscope", "harness", "compiler", "simulator", "models", "reports", "dashboards")


def sources(suffixes: set[str], *, wanted: bool) -> set[Path]:
    """Files of the rooms whose suffix is, or is not, one of `suffixes`; tests and caches apart."""
    paths = (path for room in ROOMS for path in (ROOT / room).rglob("*") if path.is_file())
    outside = {"tests", "__pycache__"}
    return {
        path
        for path in paths
        if (path.suffix in suffixes) is wanted and not outside & set(path.relative_to(ROOT).parts)
    }


def test_every_data_file_is_named() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    named = {
        path
        for package, patterns in settings.items()
        for pattern in patterns
        for path in ROOT.joinpath(*package.split(".")).resolve().glob(pattern)  # rooms are links below opscope/
    }
    # What setup.py compiles, its types and the result are no data.
    assert sources({".py", ".pyc", ".c", ".pyi", ".so"}, wanted=False) <= named


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for path in sources({".py"}, wanted=True)}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
