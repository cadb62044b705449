"""Paths inside a folder: whoever writes below a folder resolves the name here, so that nothing is written elsewhere.

Names are checked when a record is read, but a folder from elsewhere may hold links: `artifacts/<op id>` that leads to
the user's home. So no part of the name may be a link. The folder itself may be one, since the user chose it.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path, PurePath

from opscope.base import regular_file


def inside(folder: Path, name: str | PurePath) -> Path:
    """The place of `name` below `folder`; neither need exist. Raises OSError if it leaves the folder, or by a link."""
    home = os.path.realpath(folder)
    asked = os.path.normpath(os.path.join(home, name))  # noqa: PTH118
    if not asked.startswith(home + os.sep) or os.path.realpath(asked) != asked or ".." in PurePath(name).parts:
        raise OSError(errno.ELOOP, "a path that leads out of its folder, or by a link", os.path.join(folder, name))  # noqa: PTH118
    return folder / name


def copy_folder(source: Path, target: Path) -> None:
    """Copies the files of a folder and its subfolders. Raises OSError for a link, a pipe or a device among them."""
    target.mkdir(parents=True, exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                copy_folder(source / entry.name, target / entry.name)
            else:
                copy_file(inside(source, entry.name), target / entry.name)


def copy_file(source: Path, target: Path) -> None:
    """Copies a regular file. Raises OSError for anything else."""
    with open(source, "rb", opener=regular_file.opener) as reading, target.open("wb") as writing:
        shutil.copyfileobj(reading, writing)
