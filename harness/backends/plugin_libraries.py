"""Finds PJRT plugins: the shared library that an installed package registers, or one that is named by its file.

Packages register theirs in the entry-point groups of `GROUPS`. Nothing here loads a library or imports a package that
has one: what a plugin's package does when it is imported is its own affair. Pytest processes call this.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

from opscope.base.plugins import plugins
from opscope.harness.backends import plugin_releases
from opscope.harness.backends.plugin_library import GROUPS, SUFFIXES, Library, has_entry, libraries_below, short_name
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.optest import release_in


def is_file_name(word: str) -> bool:
    """Whether a plugin is named by its file: `FILE.so`, or any path."""
    return word.endswith(SUFFIXES) or os.sep in word


def names() -> list[str]:
    """The names of the plugins that installed packages register."""
    return sorted(_entry_points())


def check(where: str, word: str) -> None:
    """Raises InputError if there is no plugin of that name, no such file, or no such release."""
    if release_in(word):
        find(where, word)
        return
    if is_file_name(word):
        if Path(word).is_dir():
            _below(where, Path(word))
        elif not Path(word).is_file():
            raise InputError(where, "the file of a PJRT plugin", f"no file {word}", _way_out(word))
        return
    _point(where, word)


def find(where: str, word: str) -> Library:
    """The library of a plugin: `NAME`, `FILE.so`, the only one below a `FOLDER/`, or `NAME@RELEASE`, which is fetched
    once.

    Raises InputError if there is none, or if several might be meant.
    """
    if release := release_in(word):
        return plugin_releases.find(where, plugin_releases.distribution_of(word.removesuffix(f"@{release}")), release)
    check(where, word)
    if is_file_name(word):
        return _below(where, Path(word)) if Path(word).is_dir() else Library(Path(word).stem, Path(word).resolve())
    point = _point(where, word)
    files = _libraries(point.module, tuple(sys.path))
    if len(files) != 1:
        got = f"{len(files)} in {point.module}" if files else f"none in {point.module}"
        raise InputError(where, "a package with one PJRT library", got, f"{where.removesuffix(word)}FILE.so")
    package = point.dist
    return Library(point.name, files[0], package.name if package else "", package.version if package else "")


def _below(where: str, folder: Path) -> Library:
    """The one PJRT library in a folder of a build or of an unpacked wheel. Raises InputError if there is not one."""
    files = libraries_below(folder)
    if len(files) != 1:
        got = ", ".join(str(path.relative_to(folder)) for path in files[:3]) or "none"
        raise InputError(where, f"one PJRT library in {folder}", got, "the path of the library itself")
    path = files[0].resolve()
    for package in distributions(path=[str(folder)]):
        return Library(path.stem, path, package.name, package.version)
    return Library(path.stem, path)


def _point(where: str, word: str) -> EntryPoint:
    points = _entry_points()
    if word in points:
        return points[word]
    meant = sorted(name for name in points if short_name(name) == word)
    if len(meant) > 1:
        raise InputError(where, "the name of one plugin", f"'{word}', which may be {' or '.join(meant)}", meant[-1])
    if not meant:
        raise InputError(where, "the name of an installed PJRT plugin or a file", f"'{word}'", _way_out(word))
    return points[meant[0]]


def _way_out(word: str) -> str:
    """The plugins that there are, by the names that are close."""
    names = {name for point in _entry_points() for name in (point, short_name(point))}
    near = closest(Path(word).stem, names)
    return near or "pip install a package that registers one, or the path of its .so file"


def _entry_points() -> dict[str, EntryPoint]:
    """Name -> entry point; one that several groups have is that of the first."""
    points: dict[str, EntryPoint] = {}
    for group in GROUPS:
        for point in plugins(group):
            points.setdefault(point.name, point)
    return points


@cache
def _libraries(module: str, _folders: Sequence[str]) -> list[Path]:
    """The libraries in a package's folder that have the entry of a plugin."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return []
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    files = sorted({path for place in places for path in Path(place).rglob("*") if path.suffix in SUFFIXES})
    return files if len(files) == 1 else [path for path in files if has_entry(path)]
