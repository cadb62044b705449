"""The export folder of one model: its place in the cache, its key, and how it is written and read.

An export folder holds all that a lane needs to climb the ops of one model, and never changes once it is complete:

    module.mlirbc     the whole model, StableHLO bytecode with locations
    manifest.jsonl    a ManifestHeader line, then one OpRow line per unique op
    ops/<id>.mlirbc   one single-op module per unique op
    values/*.npy      captured inputs and goldens, each value once
    base              of a folder of pieces: the name of the model's own folder, beside it
    digests.json      size and digest of each of these files (opscope/base/stored.py)

It is written under a temporary name and renamed when complete, so a folder that exists is complete. Whoever reads one
of its files takes it from `stored.checked`, which notices damage. No path in it leads out of it: a cache can be moved.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from opscope.base import content_digests, damage, inner_path, stored
from opscope.base.cache_folder import HINT, NoCacheError, cache_folder
from opscope.base.damage import Damaged
from opscope.base.digest import digest_of_sources, file_digest, json_digest, source_files, words_digest
from opscope.base.places import HOME, room
from opscope.base.plugins import version
from opscope.base.xla import xla_releases
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import ManifestHeader, OpRow

MODULE, MANIFEST, OPS, VALUES = "module.mlirbc", "manifest.jsonl", "ops", "values"
WHOLE = "whole.json"
"""The model as one program: an OpRow."""
BASE = "base"
"""A file of a folder of pieces: the name of the folder that they were made of."""
JOURNAL = "evaluating"
"""A file that exists during the export: id, name and place of the op under evaluation, in case the op ends the
process."""

SOURCES = ("harness/formulas", "harness/prepare", "harness/record", "base")
"""Source folders whose changes invalidate older export folders; so do changes of SEEDING."""

SEEDING = "seeding.py"
"""The file of `models` that draws the values on which goldens are computed."""

WITHOUT_EFFECT = ("harness/cache",)
"""Source folders from which the child loads files that do not affect what it writes."""

GONE, UNFINISHED = ".gone-", ".making-"
"""Beginning of the name of what is being removed, and of what is being made."""

LIMITED = "limited"
"""The file of an export folder that holds what a limit of time or memory, or a kill, has cut short: the name of the
run, which alone takes it for what the model is."""

PACKAGES = ("jax", "jaxlib", "numpy", "ml_dtypes")
"""Packages whose version affects what it writes."""


SOURCES_FILE = "sources.json"
"""The file of the cache folder with the digests of source files."""


def recall_sources(cache: Path) -> None:
    """Takes over the digests of source files that an earlier process kept in a cache folder."""
    content_digests.load(cache / SOURCES_FILE)


def keep_sources(cache: Path) -> None:
    """Keeps the digests of source files for the processes to come."""
    content_digests.save(cache / SOURCES_FILE)


def cache_dir(setting: str | None = None) -> Path:
    """The folder of all caches; `setting` is the value of the setting `cache_dir`. Raises InputError."""
    try:
        return cache_folder(setting)
    except NoCacheError as error:
        raise InputError("cache folder", "one that this user can read", error.got, HINT) from None


def sources_digest() -> str:
    """SHA-256 over the sources, the package versions and XLA's flags that decide what an export folder holds."""
    versions = (*(f"{package}={version(package)}" for package in PACKAGES), xla_releases.flags())
    return digest_of_sources([*source_files(*map(room, SOURCES)), room("models") / SEEDING], *versions, root=HOME)


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


def make_dir(path: Path) -> Path:
    """Creates `path`. Raises InputError if that is not possible (read-only or full disk)."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None
    return path


NO_ROOM = re.compile(rf"\[Errno ({errno.ENOSPC}|{errno.EDQUOT})\]|requested and \d+ written")
"""What the error of a child says, of Python or NumPy, if its disk is full."""


def unwritable(path: Path, error: OSError) -> InputError:
    """The error for a disk that refuses a write to the cache."""
    # NumPy does not give the reason for an incomplete file, which is a full disk.
    reason = error.strerror or os.strerror(errno.ENOSPC if "written" in str(error) else errno.EIO)
    return InputError("cache folder", "a writable folder", f"{path} ({reason})", "another OPSCOPE_CACHE_DIR")


def complete(folder: Path) -> bool:
    """Whether `folder` is complete."""
    return stored.is_sealed_folder(folder)


def intact(folder: Path) -> bool:
    """Whether `folder` is complete and, as far as sizes tell, undamaged. What is damaged is said and removed.

    Contents are checked where they are read. Raises InputError if a damaged folder cannot be removed.
    """
    if not complete(folder):
        return False
    try:
        stored.check_sizes(folder)
    except Damaged as error:
        discard(folder, error)
        return False
    return True


def discard(folder: Path, error: Damaged) -> None:
    """Says that a folder is damaged and takes it away, so that it is made again. Raises InputError if it cannot."""
    damage.say(f"{error.where}: {error.state}; {folder.parent.name}/{folder.name} is made again")
    try:
        remove(folder)
    except FileNotFoundError:
        return  # another process was faster
    except OSError as refused:
        raise unwritable(folder, refused) from None


def remove(folder: Path) -> None:
    """Removes a folder, which no process sees half empty. Raises OSError."""
    gone = folder.with_name(f"{GONE}{os.getpid()}-{folder.name}")
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def publish(temporary: Path, folder: Path) -> None:
    """Seals a finished folder and renames it into place. If another process was faster, its folder stays and this one
    is removed."""
    stored.seal(temporary, folder.name)
    try:
        temporary.rename(folder)
    except OSError:
        if not complete(folder) and folder.is_dir():  # of an opscope without digests, or what is left of one
            remove(folder)
            temporary.rename(folder)
        elif not complete(folder):
            raise
        shutil.rmtree(temporary, ignore_errors=True)


def linked(old: Path, folder: Path) -> bool:
    """Makes an export folder of the files of another one, which is of the same content. Returns whether it could."""
    temporary = folder.with_name(f"{UNFINISHED}{os.getpid()}-{folder.name}")
    try:
        if (marks := stored.marks(old)) is None:
            return False
        shutil.copytree(old, temporary, copy_function=os.link, ignore=shutil.ignore_patterns(stored.DIGESTS))
        stored.write_json(temporary / stored.DIGESTS, {"folder": folder.name, "files": marks})
        temporary.rename(folder)
        stored.check_sizes(folder)
    except (OSError, shutil.Error, Damaged):
        return False  # it is made, then
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return True


def limited_in(folder: Path) -> str:
    """The run of which a limit, or somebody, has cut short what a folder holds; empty if none has."""
    try:
        return (folder / LIMITED).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def mark_used(folder: Path) -> None:
    """Notes that a folder was used just now; does nothing in a read-only cache."""
    with contextlib.suppress(OSError):
        os.utime(folder)


def write_manifest(folder: Path, header: ManifestHeader, rows: Iterable[OpRow]) -> None:
    """Writes the manifest."""
    lines = [header.model_dump_json(), *(row.model_dump_json() for row in rows)]
    (folder / MANIFEST).write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> tuple[ManifestHeader, list[OpRow]]:
    """Header and rows of a complete export folder, with its place as of now. Raises Damaged."""
    first, *rest = stored.checked(folder, MANIFEST).read_bytes().splitlines()
    header = ManifestHeader.model_validate_json(first).model_copy(update={"export_dirs": (str(folder),)})
    return header, [OpRow.model_validate_json(line) for line in rest]


def base_of(folder: Path) -> Path:
    """The folder of a model's own ops that a folder of its pieces was made of; any other folder as it is."""
    try:
        return inner_path.inside(folder.parent, stored.checked(folder, BASE).read_text(encoding="utf-8"))
    except (OSError, ValueError, Damaged):
        return folder


class Rows:
    """The rows of a complete export folder, as lines: a process needs few of them, and a row takes four times the
    memory of its line and ten times its time."""

    def __init__(self, folder: Path) -> None:
        """Raises Damaged."""
        _, *lines = stored.checked(folder, MANIFEST).read_bytes().splitlines()
        self._lines = {_op_id(line): line for line in lines}

    def get(self, op_id: str) -> OpRow | None:
        """The row of an op; None if it has none."""
        line = self._lines.get(op_id)
        return None if line is None else OpRow.model_validate_json(line)


def _op_id(line: bytes) -> str:
    """The op of a manifest's line, which begins with it."""
    start = len(b'{"op_id":"')
    return line[start : line.index(b'"', start)].decode()


def below(cache: Path, header: ManifestHeader) -> ManifestHeader:
    """A run's manifest in the form that its folder holds it: export folders relative to the cache."""
    places = (Path(folder) for folder in header.export_dirs)
    relative = tuple(str(p.relative_to(cache) if p.is_relative_to(cache) else p) for p in places)
    return header.model_copy(update={"export_dirs": relative})


def located(header: ManifestHeader, *caches: Path) -> ManifestHeader:
    """A run's manifest with the places of its export folders: each in the first of some caches that has it.

    If none has, it is that in the first cache. Absolute ones, of older runs, stay.
    """

    def place(folder: str) -> str:
        return str(next((cache / folder for cache in caches if complete(cache / folder)), caches[0] / folder))

    return header.model_copy(update={"export_dirs": tuple(map(place, header.export_dirs))})


def value_files(row: OpRow) -> list[str]:
    """The files with the values that the verdict on an op rests on, relative to its export folder."""
    parts = row.shards or row.by_class
    sources = [source.path for part in parts for source in part.sources if source.path is not None]
    seconds = [each.second.values for each in row.by_class if each.second is not None]
    second = [path for paths in seconds for path in paths]
    goldens = [path for part in parts for path in (*part.golden, *part.term_sizes)]
    return list(dict.fromkeys([*sources, *goldens, *second]))


def files_of(row: OpRow) -> list[str]:
    """All files that an op needs, relative to its export folder, each once."""
    return list(dict.fromkeys([*([row.module] if row.module else []), *value_files(row)]))


def those_complete(header: ManifestHeader) -> ManifestHeader:
    """The header with those of its models alone whose exports are there."""
    places = zip(header.models, header.export_dirs, strict=True)
    there = [(model, folder) for model, folder in places if complete(Path(folder))]
    return header.model_copy(update={"models": tuple(m for m, _ in there), "export_dirs": tuple(f for _, f in there)})


def all_complete(header: ManifestHeader) -> bool:
    """Whether all export folders of a run are still there and complete."""
    return all(complete(Path(folder)) for folder in header.export_dirs)


def refuse_removed(header: ManifestHeader, rows: Iterable[OpRow], run_dir: Path, where: str) -> None:
    """Raises InputError for an op of a run whose model's export is no more there."""
    folders = dict(zip(header.models, header.export_dirs, strict=True))
    for model in dict.fromkeys(row.uses[0].model for row in rows):
        if not complete(Path(folders[model])):
            hint = f"pytest --op-by-op --model {model} --ops NAME"
            raise InputError(where, f"the export of {model} in {run_dir}", "a removed export", hint)
