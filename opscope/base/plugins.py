"""What installed packages say of themselves: the entry points that they register with us, and their versions.

Reading the metadata of every installed package takes some tens of milliseconds, and parsing all that one says two, so
answers are kept for as long as Python looks for packages in the same folders.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points

_VERSION = re.compile(r"^Version:[ \t]*(\S+)", re.MULTILINE)


def plugins(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, in the order of the folders that Python looks in."""
    return _plugins(group, tuple(sys.path))


@lru_cache(maxsize=64)
def _plugins(group: str, _folders: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def version(package: str) -> str:
    """The installed version of a distribution. Raises PackageNotFoundError."""
    number = _version(package, tuple(sys.path))
    if not number:
        raise PackageNotFoundError(package)
    return number


@lru_cache(maxsize=1024)
def _version(package: str, _folders: tuple[str, ...]) -> str:
    """The version, or nothing where the package is absent."""
    try:
        one = distribution(package)
    except PackageNotFoundError:
        return ""
    head = (one.read_text("METADATA") or one.read_text("PKG-INFO") or "").partition("\n\n")[0]
    match = _VERSION.search(head)
    return match[1] if match is not None else one.version
