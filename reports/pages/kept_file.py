"""Reads what a page kept in a cache folder for the next one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from opscope.base import damage, stored
from opscope.base.damage import Damaged


def read(path: Path) -> bytes | None:
    """The content of a file that `stored.write_bytes` wrote; None if there is none, or if it is damaged, which is said
    in a line: whoever asks makes it again."""
    try:
        content = stored.read_bytes(path)
    except Damaged as error:
        damage.say(f"{error.where}: {error.state}; it is made again")
        return None
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the files used most recently are removed last
    return content
