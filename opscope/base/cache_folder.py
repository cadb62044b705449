"""Where the caches are, and whether this user can use them: the one answer that every door asks for."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "OPSCOPE_CACHE_DIR"
HINT = f"{VARIABLE}=FOLDER, one that this user can write"


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
        return _usable(Path(platformdirs.user_cache_dir("opscope")))
    except (RuntimeError, KeyError):
        raise NoCacheError("a user without a home folder") from None


def _usable(folder: Path) -> Path:
    try:
        folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return folder  # whoever makes it says whether that can be done
    except OSError as error:
        raise NoCacheError(f"{folder} ({error.strerror})") from None
    if not os.access(folder, os.R_OK | os.X_OK):
        raise NoCacheError(f"{folder} (Permission denied)")
    return folder
