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

NOT_IN_VERDICTS = ("cli", "limitations", "page", "run", "scale", "settings", "triage")
"""Packages of this room that choose, order, count or show ops. No verdict depends on them; all others count."""

PACKAGE_FOLDERS = (".dist-info", ".egg-info")
"""Suffixes of the folders that name the installed distributions, with their versions."""


def sources(*rooms: str) -> Iterable[Path]:
    """The files of some rooms, and of what all rooms share, without their tests."""
    return source_files(*map(room, ("base", *rooms)))


def own_file(backend: str) -> list[Path]:
    """The file of a backend that is given by its path."""
    return [Path(backend)] if backend.endswith(SOURCE_SUFFIXES) and Path(backend).is_file() else []


def of_verdicts(backend: str) -> str:
    """A digest that changes with whatever turns a backend's results into a verdict: goldens, inputs,
    comparison, adapters.
    """
    left_out = tuple(room("harness") / name for name in NOT_IN_VERDICTS)
    counted = [path for path in sources("harness") if not any(map(path.is_relative_to, left_out))]
    files = [*counted, room("models") / "seeding.py", *own_file(backend)]
    return files_digest(files, export_folder.sources_digest(), *_machine(), root=HOME, digits=16)


def of_all_sources(backend: str) -> str:
    """A digest that changes with any source of any room and with any installed package.

    While it stays, what a backend reported before still holds.
    """
    files = [*sources("harness", "compiler", "simulator", "models"), *own_file(backend)]
    return files_digest(files, *_machine(), *_installed(), root=HOME, digits=16)


def _machine() -> tuple[str, ...]:
    return sys.version, export_folder.cpu_fingerprint(), os.environ.get("XLA_FLAGS", "")


@cache
def _installed() -> tuple[str, ...]:
    """Names and versions of the installed distributions, as the folders that hold them are called."""
    names: set[str] = set()
    for entry in sys.path:
        try:
            folders = [path.name for path in Path(entry or ".").iterdir() if path.suffix in PACKAGE_FOLDERS]
        except OSError:
            continue
        names.update(folders)
    return tuple(sorted(names))
