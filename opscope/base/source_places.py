"""Places in sources as who reads them can follow them.

Exports are kept by what they are made of, so a place may be one that another user or folder wrote into the cache
(harness/prepare/mlir/locations.py).
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path

from opscope.base.places import HOME

_FILE = re.compile(r"(?P<folder>[^()\s][^()]*/)(?P<name>[^()/]+\.py)(?=:\d+\)?\Z)")


def here(place: str) -> str:
    """`place`, a `name (file:line)` or a `file:line`; a file that is not there goes by its name alone.

    A file is looked for below this folder, in the project, and among installed packages.
    """
    return _FILE.sub(lambda file: file[0] if _is_there(file[0]) else file["name"], place)


def from_any_folder(text: str) -> str:
    """`text` with files of the project and of installed packages as they are called within these.

    A record may be read in another checkout, or on another machine.
    """
    for folder in _folders():
        text = text.replace(folder, "")
    return text


@functools.lru_cache
def _folders() -> tuple[str, ...]:
    installed = (folder for folder in sys.path if Path(folder).name in ("site-packages", "dist-packages"))
    return tuple(f"{folder}/" for folder in sorted({str(HOME), *installed}, key=len, reverse=True))


@functools.lru_cache
def _is_there(file: str) -> bool:
    return any((Path(folder) / file).is_file() for folder in ("", HOME, *sys.path))
