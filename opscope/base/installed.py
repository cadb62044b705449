"""Versions of installed packages, without parsing all that their metadata says (which takes 2 ms for each)."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution

_VERSION = re.compile(r"^Version:[ \t]*(\S+)", re.MULTILINE)


def version(package: str) -> str:
    """The installed version of a distribution. Raises PackageNotFoundError.

    It is kept for as long as Python looks for packages in the same folders.
    """
    kept = _version(package, tuple(sys.path))
    if not kept:
        raise PackageNotFoundError(package)
    return kept


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
