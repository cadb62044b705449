"""JSON values kept by key in a folder that any number of processes share: one file each, whole or absent.

A file is written beside its place and renamed, so no reader sees half of it; a damaged one is only a miss, and a disk
that takes no more costs nothing but the work that is done again. Reading a value notes that it was used.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from opscope.base.atomic_write import write_whole


class JsonStore:
    """The values below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, key: str) -> Path:
        """The file of a key, in one of 256 folders so that none grows long."""
        return self.root / key[:2] / f"{key}.json"

    def has(self, key: str) -> bool:
        """Whether there is a value, whole or damaged."""
        return self.place(key).is_file()

    def get(self, key: str) -> dict[str, Any] | None:
        """The value; None if there is none that can be read."""
        path = self.place(key)
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return value if isinstance(value, dict) else None

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Keeps a value, in the place of an older one; of two writers at once one wins."""
        with contextlib.suppress(OSError):
            write_whole(self.place(key), json.dumps(value))
