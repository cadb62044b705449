"""JSON values stored by key in a folder that any number of processes share, one file per value.

A file is written under a temporary name and renamed, so no reader sees half of it. A damaged file counts as a miss and
is named. If the disk is full, values are not stored and their work is done again. Reading a value marks it as used.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from opscope.base import damage, stored


class JsonStore:
    """The values below one folder."""

    def __init__(self, root: Path) -> None:
        self.root, self._prefix = root, f"{root}{os.sep}"

    def place(self, key: str) -> Path:
        """The file of a key, in one of 256 folders so that none grows too large."""
        return Path(f"{self._prefix}{key[:2]}{os.sep}{key}.json")

    def has(self, key: str) -> bool:
        """Whether there is a value, whole or damaged."""
        return os.path.isfile(f"{self._prefix}{key[:2]}{os.sep}{key}.json")  # noqa: PTH113 - once an op

    def get(self, key: str) -> dict[str, Any] | None:
        """Returns the value, or None if there is none that can be read."""
        path = self.place(key)
        try:
            value = stored.read_json(path)
        except damage.Damaged as error:
            damage.say(f"{path}: {error.state}; it is made again")
            return None
        except OSError:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return value

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Stores a value and replaces an older one. Of two simultaneous writers, one wins."""
        with contextlib.suppress(OSError):
            stored.write_json(self.place(key), value)
