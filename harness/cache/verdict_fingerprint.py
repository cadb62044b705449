"""Digests of what a verdict depends on besides the op and the backend: opscope's sources, the processor, the packages.

Cheap enough for pytest processes, because it reads files and does not import them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from opscope.base.digest import SOURCE_SUFFIXES, digest_of_sources, source_files
from opscope.base.places import HOME, room
from opscope.harness.cache import export_folder

NOT_IN_VERDICTS = ("cli", "limitations", "page", "run", "scale", "settings", "triage")
"""Packages of `harness` that choose, order, count or show ops. No verdict depends on them; all others count."""

PACKAGE_FOLDERS = (".dist-info", ".egg-info")
"""Suffixes of the folders whose names hold the installed distributions and their versions."""


def sources(*rooms: str) -> Iterable[str]:
    """The source files of some packages and of the code that all packages share, without tests."""
    return source_files(*map(room, ("base", *rooms)))


def own_file(backend: str) -> list[Path]:
    """The file of a backend that is given by its path."""
    return [Path(backend)] if backend.endswith(SOURCE_SUFFIXES) and Path(backend).is_file() else []


def of_verdicts(backend: str) -> str:
    """A digest of the code that turns a backend's results into a verdict: goldens, inputs, comparison, adapters."""
    left_out = tuple(f"{room('harness') / name}{os.sep}" for name in NOT_IN_VERDICTS)
    counted = [path for path in sources("harness") if not path.startswith(left_out)]
    files = [*counted, *own_file(backend)]
    return digest_of_sources(files, export_folder.sources_digest(), *_machine(), root=HOME, digits=16)


def of_rules() -> str:
    """A digest of the rules by which a result is judged: limits, error model, exact formulas."""
    return digest_of_sources(sources("harness/verdict", "harness/formulas"), root=HOME, digits=12)


def of_all_sources(backend: str) -> str:
    """A digest that changes with any source of any package of opscope, and with any installed distribution.

    While it is the same, a backend's earlier report is still valid.
    """
    files = [*sources("harness", "compiler", "simulator", "models"), *own_file(backend)]
    return digest_of_sources(files, *_machine(), *_installed(), root=HOME, digits=16)


def _machine() -> tuple[str, ...]:
    chosen = (os.environ.get(name, "") for name in ("XLA_FLAGS", "OPENBLAS_CORETYPE"))
    return sys.version, export_folder.cpu_fingerprint(), *chosen


@cache
def _installed() -> tuple[str, ...]:
    """Names and versions of the installed distributions, read from the names of their folders."""
    names: set[str] = set()
    for entry in sys.path:
        try:
            folders = [path.name for path in Path(entry or ".").iterdir() if path.suffix in PACKAGE_FOLDERS]
        except OSError:
            continue
        names.update(folders)
    return tuple(sorted(names))
