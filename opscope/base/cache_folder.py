"""Where the caches are, and whether this user can use them: the one answer that every door asks for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "OPSCOPE_CACHE_DIR"
HINT = f"{VARIABLE}=FOLDER, one that this user can write"

KINDS = {
    "exports": 1,
    "modules": 1,
    "executables": 1,
    "results": 2,
    "authorities": 2,
    "imports": 2,
    "lists": 2,
    "requests": 2,
    "entries": 2,
    "suites": 1,
    "templates": 1,
    "tt-metal": 1,
    "releases": 1,
    "environments": 1,
}
"""Folder of each cache -> the depth below it of the entries, which are removed as a whole."""


class NoCacheError(ValueError):
    """There is no folder for caches that this user can use; `got` is what was found in its place."""

    def __init__(self, got: str) -> None:
        super().__init__(f"cache folder: expected one that this user can read, got {got}; try {HINT}")
        self.got = got


def cache_folder(setting: str | None = None) -> Path:
    """The absolute folder of all caches: `setting`, else OPSCOPE_CACHE_DIR, else the user's cache folder for opscope.

    It need not exist. Raises NoCacheError where a user without a home folder names none, or where the folder, or one
    around it, is not this user's to read (HOME of another one, as after `sudo -E`).
    """
    named = setting or os.environ.get(VARIABLE)
    return _usable(Path(named).absolute()) if named else users_folder()


def users_folder() -> Path:
    """The user's cache folder for opscope, whatever is named in its place. Raises NoCacheError."""
    import platformdirs

    try:
        folder = Path(platformdirs.user_cache_dir("opscope"))
    except (RuntimeError, KeyError):
        folder = Path("~")  # as earlier versions of platformdirs answer
    if not folder.is_absolute():
        raise NoCacheError("a user without a home folder")
    return _usable(folder)


def _usable(folder: Path) -> Path:
    try:
        folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return folder  # whoever makes it says whether that can be done
    except OSError as error:
        raise NoCacheError(f"{folder} ({error.strerror})") from None
    if closed := next((each for each in _folders(folder) if not os.access(each, os.R_OK | os.X_OK)), None):
        raise NoCacheError(f"{closed} (Permission denied)")
    return folder


def read_only(cache: Path) -> bool:
    """Whether a cache exists in which this user may not keep everything: after `sudo`, a part of it is root's."""
    return cache.is_dir() and not all(os.access(folder, os.W_OK) for folder in _folders(cache))


def _folders(cache: Path) -> Iterator[str]:
    """A cache folder and those of the caches in it, as far as they can be listed. Others, such as the `lost+found` of a
    volume, are nobody's business."""
    yield str(cache)
    with contextlib.suppress(OSError), os.scandir(cache) as entries:
        yield from (entry.path for entry in entries if entry.name in KINDS and entry.is_dir())
