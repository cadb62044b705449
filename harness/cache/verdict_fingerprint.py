"""What a verdict depends on besides the op and the backend: our own sources, the processor, the packages.

Cheap enough for pytest processes: it reads files and imports none of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from opscope.base.digest import SOURCE_SUFFIXES, files_digest, source_files
from opscope.base.places import HOME, room
from opscope.harness.cache import export_folder

NO_JUDGES = ("cli", "limitations", "page", "run", "scale", "settings", "triage")
"""Packages of this room that choose, order, count or show: no verdict follows from them. All others count."""

PACKAGE_FOLDERS = (".dist-info", ".egg-info")
"""Endings of the folders that say which distributions are installed, with their versions."""


def sources(*rooms: str) -> Iterable[Path]:
    """The files of some rooms, and of what all rooms share, without their tests."""
    return source_files(*map(room, ("base", *rooms)))


def own_file(backend: str) -> list[Path]:
    """The file of a backend that is given by its path."""
    return [Path(backend)] if backend.endswith(SOURCE_SUFFIXES) and Path(backend).is_file() else []


def judgement(backend: str) -> str:
    """Changes with whatever turns an answer of the backend into a verdict: goldens, inputs, comparison, adapters."""
    others = tuple(room("harness") / name for name in NO_JUDGES)
    judges = [path for path in sources("harness") if not any(map(path.is_relative_to, others))]
    files = [*judges, room("models") / "seeding.py", *own_file(backend)]
    return files_digest(files, export_folder.sources_digest(), *_machine(), root=HOME, digits=16)


def everything(backend: str) -> str:
    """Changes with any source of any room and with any installed package: what a backend said before still holds."""
    files = [*sources("harness", "compiler", "simulator", "models"), *own_file(backend)]
    return files_digest(files, *_machine(), *_installed(), root=HOME, digits=16)


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
