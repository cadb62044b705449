"""The export folder of one model: its place in the cache, its key, and how it is written and read.

An export folder holds all that a lane needs to climb the ops of one model, and never changes once it is complete:

    module.mlirbc     the whole model, StableHLO bytecode with locations
    manifest.jsonl    a ManifestHeader line, then one OpRow line per unique op
    ops/<id>.mlirbc   one single-op module per unique op
    values/*.npy      captured inputs and goldens, each value once

It is written under a temporary name and renamed when complete, so a folder that exists is complete.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import shutil
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from opscope.base.digest import file_digest, files_digest, json_digest, source_files, words_digest
from opscope.base.places import HOME, room
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import ManifestHeader, OpRow

MODULE, MANIFEST, OPS, VALUES = "module.mlirbc", "manifest.jsonl", "ops", "values"
WHOLE = "whole.json"
"""The model as one program: an OpRow."""
JOURNAL = "evaluating"
"""A file that exists during the export: id, name and place of the op under evaluation, in case the op ends the
process."""

SOURCES = ("harness/prepare", "harness/record", "base")
"""Source folders whose changes invalidate older export folders."""

WITHOUT_EFFECT = ("harness/cache", "harness/settings")
"""Source folders from which the child loads files that do not affect what it writes."""

PACKAGES = ("jax", "jaxlib", "numpy", "ml_dtypes")
"""Packages whose version affects what it writes."""


def default_cache_dir() -> Path:
    """OPSCOPE_CACHE_DIR, else the user's cache folder for opscope."""
    import platformdirs

    return Path(os.environ.get("OPSCOPE_CACHE_DIR") or platformdirs.user_cache_dir("opscope"))


def cache_dir(setting: str | None) -> Path:
    """The folder of all caches; `setting` is the value of the setting `cache_dir`."""
    return Path(setting).absolute() if setting else default_cache_dir().absolute()


def sources_digest() -> str:
    """SHA-256 over the sources and package versions that decide what an export folder holds."""
    versions = (f"{package}={metadata.version(package)}" for package in PACKAGES)
    return files_digest(source_files(*map(room, SOURCES)), *versions, root=HOME)


def key(model_files: Iterable[Path], settings: dict[str, object], sources: str) -> str:
    """The name of the export folder for a model's files and the settings of the export; 20 hex digits.

    `sources` is the result of `sources_digest`, which takes ten times as long as this function.
    """
    return words_digest(sources, *map(file_digest, model_files), json_digest(settings), digits=20)


def cpu_fingerprint() -> str:
    """A text that changes with the CPU's instruction set, because compiled code is only valid for one."""
    flags = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        flags += next(
            (line for line in info.read_text(encoding="utf-8").splitlines() if line.startswith(("flags", "Features"))),
            "",
        )
    return words_digest(flags, digits=12)


def make_dir(path: Path, where: str = "cache folder") -> Path:
    """Creates `path`. Raises InputError if that is not possible (read-only or full disk)."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(where, path, error) from None
    return path


def unwritable(where: str, path: Path, error: OSError) -> InputError:
    """The error for a disk that refuses a write."""
    # NumPy does not give the reason for an incomplete file, which is a full disk.
    reason = error.strerror or os.strerror(errno.ENOSPC if "written" in str(error) else errno.EIO)
    return InputError(where, "a writable folder", f"{path} ({reason})", "another OPSCOPE_CACHE_DIR")


def complete(folder: Path) -> bool:
    """Whether `folder` is complete."""
    return (folder / MANIFEST).is_file()


def publish(temporary: Path, folder: Path) -> None:
    """Renames a finished folder into place. If another process was faster, its folder stays and this one is removed."""
    try:
        temporary.rename(folder)
    except OSError:
        if not complete(folder):
            raise
        shutil.rmtree(temporary, ignore_errors=True)


def mark_used(folder: Path) -> None:
    """Notes that a folder was used just now; does nothing in a read-only cache."""
    with contextlib.suppress(OSError):
        os.utime(folder)


def write_manifest(folder: Path, header: ManifestHeader, rows: Iterable[OpRow]) -> None:
    """Writes the manifest. It is the last file, because its presence marks the folder as complete."""
    lines = [header.model_dump_json(), *(row.model_dump_json() for row in rows)]
    (folder / MANIFEST).write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> tuple[ManifestHeader, list[OpRow]]:
    """Header and rows of a complete export folder."""

    def lines() -> Iterator[str]:
        with (folder / MANIFEST).open(encoding="utf-8") as file:
            yield from file

    first, *rest = lines()
    return ManifestHeader.model_validate_json(first), [OpRow.model_validate_json(line) for line in rest]


def all_complete(header: ManifestHeader) -> bool:
    """Whether all export folders of a run are still there and complete."""
    return all(complete(Path(folder)) for folder in header.export_dirs)
