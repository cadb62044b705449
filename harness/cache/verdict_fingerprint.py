"""What a verdict depends on besides the op and the backend: our own sources, the processor, the packages.

Cheap enough for pytest processes: it reads files and imports none of them.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from opscope.base.places import room
from opscope.harness.cache import export_folder

SUFFIXES = (".py", ".yaml", ".yml", ".fbs")
"""Files of a room that decide what it computes."""

NO_JUDGES = ("cli", "limitations", "page", "run", "scale", "settings", "triage")
"""Packages of this room that choose, order, count or show: no verdict follows from them. All others count."""

PACKAGE_FOLDERS = (".dist-info", ".egg-info")
"""Endings of the folders that say which distributions are installed, with their versions."""


def sources(*rooms: str) -> Iterable[Path]:
    """The files of some rooms without their tests, in a fixed order."""
    for name in rooms:
        for folder, below, names in os.walk(room(name)):
            below[:] = sorted(inner for inner in below if inner not in ("tests", "__pycache__"))
            yield from (Path(folder, file) for file in sorted(names) if file.endswith(SUFFIXES))


def digest(paths: Iterable[Path], *words: str) -> str:
    """SHA-256 over names and contents of files, and over words; 16 hex digits."""
    found = hashlib.sha256("\0".join(words).encode())
    for path in paths:
        found.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def own_file(backend: str) -> list[Path]:
    """The file of a backend that is given by its path."""
    return [Path(backend)] if backend.endswith(SUFFIXES) and Path(backend).is_file() else []


def judgement(backend: str) -> str:
    """Changes with whatever turns an answer of the backend into a verdict: goldens, inputs, comparison, adapters."""
    harness = room("harness")
    judges = [path for path in sources("harness") if path.relative_to(harness).parts[0] not in NO_JUDGES]
    files = [*judges, room("models") / "seeding.py", *own_file(backend)]
    return digest(files, export_folder.sources_digest(), *_machine())


def everything(backend: str) -> str:
    """Changes with any source of any room and with any installed package: what a backend said before still holds."""
    files = [*sources("base", "harness", "compiler", "simulator", "models"), *own_file(backend)]
    return digest(files, *_machine(), *_installed())


def _machine() -> tuple[str, ...]:
    return sys.version, export_folder.cpu_fingerprint(), os.environ.get("XLA_FLAGS", "")


@cache
def _installed() -> tuple[str, ...]:
    """Names and versions of the installed distributions, as the folders that hold them are called."""
    found: set[str] = set()
    for entry in sys.path:
        try:
            folders = [path.name for path in Path(entry or ".").iterdir() if path.suffix in PACKAGE_FOLDERS]
        except OSError:
            continue
        found.update(folders)
    return tuple(sorted(found))
