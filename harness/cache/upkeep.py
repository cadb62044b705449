"""Keeps the caches and the run folders within their size limits.

Removes what alone takes more than half of the limit, then the least recently used entries, but never one that a live
run claims (harness/cache/claims.py) or that was used a moment ago. A folder is renamed before it is emptied, so that no
process sees half of one.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opscope.base import damage
from opscope.base.cache_folder import KINDS
from opscope.base.digest import words_digest
from opscope.base.temporary_folder import alone
from opscope.harness.cache import export_folder
from opscope.harness.cache.export_folder import GONE as REMOVED
from opscope.harness.cache.export_folder import UNFINISHED
from opscope.harness.record import run_folders
from opscope.harness.record.run_folders import MANIFEST_FILE
from opscope.harness.settings.settings import BY_NAME

MAX_CACHE: int = BY_NAME["max_cache"].default
"""Default of `max_cache`: the largest size of all caches together, in bytes."""

FRESH_SECONDS = 60.0
"""Entries younger than this stay, because a process may be about to claim them."""

EVERY_MODELS = FRESH_SECONDS / 2
"""How often a run that makes models checks the whole cache: a look takes 0.1 s, and what is fresh stays anyway."""

EVERY_SECONDS = 3600.0
"""How often a run that adds little checks the whole cache."""


@dataclass(frozen=True)
class CacheEntry:
    """One file or folder that is kept or removed as a whole."""

    kind: str
    path: Path
    size: int
    age: float
    """Seconds since it was last used."""

    @property
    def unfinished(self) -> bool:
        """Whether it is unfinished: left behind by a process that died, unless a live one claims it."""
        return self.path.name.startswith((".", REMOVED, UNFINISHED))


def cached(cache_dir: Path, now: float | None = None) -> list[CacheEntry]:
    """All entries of the caches, the longest unused first."""
    now = time.time() if now is None else now
    entries = []
    for kind, depth in KINDS.items():
        for path in _at_depth(cache_dir / kind, depth):
            with contextlib.suppress(OSError):
                entries.append(CacheEntry(kind, path, size(path), now - path.stat().st_mtime))
    return sorted(entries, key=lambda entry: -entry.age)


def shrink(entries: Sequence[CacheEntry], max_bytes: int, take: Callable[[CacheEntry], bool]) -> list[CacheEntry]:
    """Removes the longest unused entries until the rest holds at most `max_bytes`, and returns them.

    `take` removes one entry and returns whether it could. A claimed entry stays, and the next one is removed instead.
    An unfinished entry is removed in any case. One that takes more than half of the limit pushes out no other: it is
    the first to go, and as long as it has to stay it does not count. `entries` are sorted, the longest unused first.
    """
    stale = [entry for entry in entries if entry.age > FRESH_SECONDS]
    removed = [entry for entry in stale if entry.unfinished and take(entry)]
    half = max_bytes / 2
    counted = (each.size for each in entries if not each.unfinished and (each.size <= half or each.age > FRESH_SECONDS))
    excess = sum(counted) - max_bytes
    for entry in sorted(stale, key=lambda each: each.size <= half):
        if excess <= 0:
            break
        if entry.unfinished:
            continue
        if take(entry):
            removed.append(entry)
        elif entry.size <= half:
            continue
        excess -= entry.size
    return removed


def old_runs(root: Path, keep: int) -> list[CacheEntry]:
    """All run folders except the `keep` newest, oldest first. Those without a manifest count as the oldest."""
    runs = []
    for run in root.iterdir() if root.is_dir() else ():
        manifest = run / MANIFEST_FILE
        with contextlib.suppress(OSError):
            begun = (manifest if manifest.is_file() else run).stat().st_mtime
            runs.append((manifest.is_file(), begun, run))
    runs.sort()
    old = runs[: max(0, len(runs) - keep)]
    return [CacheEntry("runs", run, size(run), time.time() - begun) for _, begun, run in old]


def unclaimed(entry: CacheEntry) -> bool:
    """Whether no process claims an entry, so that `remove` would remove it."""
    with alone(entry.path) as ours:
        return ours


def of_run(folder: Path, run: str) -> Path:
    """The export folder for a run: this one, or if a limit of another run has cut it short and it is still in use, one
    of its own."""
    limited = export_folder.limited_in(folder)
    if limited in ("", run) or remove(CacheEntry("exports", folder, 0, 0.0)):
        return folder
    return folder.with_name(words_digest(folder.name, run, digits=20))


def trim(cache_dir: Path, max_bytes: int = MAX_CACHE, *, every: float = 0.0) -> list[CacheEntry]:
    """Brings the caches down to `max_bytes`, at most once in `every` seconds; returns what was removed."""
    stamp = cache_dir / ".trimmed"
    try:
        # A stamp of the future is from a clock that was wrong: it says nothing.
        if every and 0 <= time.time() - stamp.stat().st_mtime < every:
            return []
    except OSError:
        pass  # never trimmed before
    with contextlib.suppress(OSError):
        stamp.touch()
    removed = shrink(cached(cache_dir), max_bytes, remove)
    if runs := _runs_of(removed, run_folders.runs_root()):
        more = f" and {len(runs) - 3} more" if len(runs) > 3 else ""
        damage.say(
            f"max_cache ({readable(max_bytes)}): exports were removed without which `--op` and `opscope repro` run no "
            f"op of {', '.join(runs[:3])}{more}; try a larger OPSCOPE_MAX_CACHE"
        )
    return removed


def _runs_of(removed: Iterable[CacheEntry], root: Path) -> list[str]:
    """The names of the runs below `root` that have their values in exports that were `removed`, the newest first."""
    keys = [f"exports/{entry.path.name}".encode() for entry in removed if entry.kind == "exports"]
    runs = []
    for manifest in root.glob(f"*/{MANIFEST_FILE}") if keys else ():
        with contextlib.suppress(OSError), manifest.open("rb") as file:
            header = file.readline()
            if any(key in header for key in keys):
                runs.append(manifest.parent.name)
    return sorted(runs, reverse=True)


def beyond(folders: Iterable[str], max_bytes: int) -> str:
    """Returns a warning if a run's folders alone are larger than the limit for all caches, otherwise an empty text.

    They stay during the run, and are the first to be removed after it.
    """
    needed = sum(size(Path(folder)) for folder in set(folders))
    if needed <= max_bytes:
        return ""
    enough = math.ceil(needed / (1 << 30)) + 1
    return (
        f"max_cache: expected {readable(needed)} for the inputs and goldens of this run, got {readable(max_bytes)}; "
        f"try OPSCOPE_MAX_CACHE={enough}G, or the next run computes them again"
    )


def remove(entry: CacheEntry) -> bool:
    """Removes one file or folder unless it is claimed. Returns whether it did."""
    path = entry.path
    with alone(path) as ours:
        if not ours:
            return False
        try:
            if not path.is_dir():
                path.unlink()
                return True
            renamed = path if path.name.startswith(REMOVED) else path.with_name(f"{REMOVED}{os.getpid()}-{path.name}")
            path.rename(renamed)
            shutil.rmtree(renamed)
        except OSError:
            return False  # another process was faster, or the disk is read-only
    return True


def size(path: Path) -> int:
    """Bytes of a file, or of all files of a folder; files that are removed meanwhile do not count."""
    total = 0
    with contextlib.suppress(OSError):
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return status.st_size
        with os.scandir(path) as entries:
            total = sum(size(Path(entry.path)) for entry in entries)
    return total


def _at_depth(folder: Path, depth: int) -> Iterator[Path]:
    """The files and folders `depth` levels below."""
    try:
        below = sorted(folder.iterdir())
    except OSError:
        return
    for path in below:
        if depth == 1:
            yield path
        else:
            yield from _at_depth(path, depth - 1)


def table(entries: Sequence[CacheEntry], removed: Sequence[CacheEntry], verb: str) -> str:
    """All entries and those that are removed, per kind, with their sizes."""
    rows = [("", "total", "", verb, "")]
    for kind in ("runs", *KINDS):
        rows.append(
            (kind, *_count([t for t in entries if t.kind == kind]), *_count([t for t in removed if t.kind == kind]))
        )
    rows.append(("all", *_count(entries), *_count(removed)))
    return "\n".join(f"{a:<12}{b:>8}{c:>12}{d:>12}{e:>12}".rstrip() for a, b, c, d, e in rows)


def _count(entries: Sequence[CacheEntry]) -> tuple[str, str]:
    return str(len(entries)), readable(sum(entry.size for entry in entries))


def readable(count: int) -> str:
    """A number of bytes in a readable unit."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
