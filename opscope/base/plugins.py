"""The entry points that installed packages register with us.

Finding them reads the metadata of every installed package, some tens of milliseconds, so they are kept for as long as
Python looks for packages in the same folders.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points


def plugins(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, in the order of the folders that Python looks in."""
    return _plugins(group, tuple(sys.path))


@lru_cache(maxsize=64)
def _plugins(group: str, _folders: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))
