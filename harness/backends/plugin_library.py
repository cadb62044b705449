"""A PJRT plugin's shared library: the file, what its package is called, and how such a file is known."""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from pathlib import Path

from opscope.base import content_digests

GROUPS = ("jax_plugins", "xla_plugins", "opscope.pjrt")
"""Entry-point groups: JAX's own, that of packages beside JAX, and ours."""
SUFFIXES = (".so", ".dylib")
_ENTRY = b"GetPjrtApi"
_AROUND = re.compile(r"^(?:lib|xla_|jax_|pjrt_)|(?:_pjrt|_plugin)$|\d+$")
"""What packages put around the name that people use: `xla_cuda12` is `cuda`, `libtt` is `tt`."""


@dataclass(frozen=True)
class Library:
    """A plugin's shared library."""

    name: str
    """As it was asked for: an entry point's name, or a file's without its suffix."""
    path: Path
    distribution: str = ""
    """The installed package that registers it; empty of a file."""
    version: str = ""

    def digest(self) -> str:
        """SHA-256 of the file, in hex; read once, as long as its size and times stay."""
        return content_digests.of(str(self.path))

    def mark(self) -> str:
        """A text that changes when the file is another, without reading it. Raises OSError."""
        return mark_of(self.path, self.version)


def mark_of(path: Path, version: str) -> str:
    """A text that changes when a file is another, without reading it. Raises OSError."""
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns} {version}"


def short_name(name: str) -> str:
    """A plugin's name without what packages put around it."""
    while (shorter := _AROUND.sub("", name, count=1)) != name and shorter:
        name = shorter
    return name


def libraries_below(folder: Path) -> list[Path]:
    """The files of plugins in a folder, in order of their paths; of a file and links to it, the first."""
    found: dict[Path, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES and has_entry(path):
            found.setdefault(path.resolve(), path)
    return list(found.values())


def has_entry(path: Path) -> bool:
    """Whether a library has the entry of a plugin."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(_ENTRY) >= 0
    except (OSError, ValueError):
        return False
