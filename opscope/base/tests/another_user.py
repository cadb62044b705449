"""Another user than the one whose tests run, for tests of what may not be read."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

USER = 12345
"""A user that no system knows."""


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder in which anybody may look; those of tests are for their own user alone."""
    with tempfile.TemporaryDirectory(prefix="opscope-open-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextlib.contextmanager
def as_another_user() -> Iterator[None]:
    """Makes this process that of a user who is not root, whom no permission would keep from anything."""
    if os.geteuid():
        yield
        return
    os.setresuid(USER, USER, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
