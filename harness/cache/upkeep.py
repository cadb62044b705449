"""Everything that grows has a bound: what lies in the cache folder and among the runs, and what of it may go.

Least recently used first; never what a live run holds (harness/cache/claims.py) or what was used a moment ago. A folder
is renamed before it is emptied, so that nobody sees half of one.
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

from opscope.harness.cache.claims import alone
from opscope.harness.record.store import MANIFEST_FILE
from opscope.harness.settings.settings import BY_NAME

MAX_CACHE: int = BY_NAME["max_cache"].default
"""Bytes that all caches together take unless `max_cache` says otherwise."""

KINDS = {"exports": 1, "modules": 1, "executables": 1, "results": 2, "javascript": 1}
"""Folder of each cache -> at which depth below it one thing lies that is removed as a whole."""

FRESH_SECONDS = 60.0
"""What was used so lately stays: somebody may be about to claim it."""

EVERY_SECONDS = 3600.0
"""How often a run that adds little looks at the whole cache."""

GONE, MAKING = ".gone-", ".making-"


@dataclass(frozen=True)
class Thing:
    """One file or folder that is kept or removed as a whole."""

    kind: str
    path: Path
    size: int
    age: float
    """Seconds since it was last used."""

    @property
    def half_made(self) -> bool:
        """Whether it is what a process that died left behind, unless a live one claims it."""
        return self.path.name.startswith((".", GONE, MAKING))


def cached(cache_dir: Path, now: float | None = None) -> list[Thing]:
    """Everything in the caches, the longest unused first."""
    now = time.time() if now is None else now
    found = []
    for kind, depth in KINDS.items():
        for path in _at_depth(cache_dir / kind, depth):
            with contextlib.suppress(OSError):
                found.append(Thing(kind, path, size(path), now - path.stat().st_mtime))
    return sorted(found, key=lambda thing: -thing.age)


def shrink(things: Sequence[Thing], max_bytes: int, take: Callable[[Thing], bool]) -> list[Thing]:
    """Takes the longest unused things until the rest holds at most `max_bytes`; returns them.

    `take` says whether it could take one: what is claimed stays, and the next one goes in its place. What is half made
    goes whatever there is room for. `things` come the longest unused first.
    """
    stale = [thing for thing in things if thing.age > FRESH_SECONDS]
    gone = [thing for thing in stale if thing.half_made and take(thing)]
    excess = sum(thing.size for thing in things if not thing.half_made) - max_bytes
    for thing in stale:
        if excess <= 0:
            break
        if not thing.half_made and take(thing):
            gone.append(thing)
            excess -= thing.size
    return gone


def old_runs(root: Path, keep: int, now: float | None = None) -> list[Thing]:
    """The run folders but the `keep` youngest, oldest first; one that never got its manifest counts as the oldest."""
    now = time.time() if now is None else now
    found = []
    for run in root.iterdir() if root.is_dir() else ():
        manifest = run / MANIFEST_FILE
        with contextlib.suppress(OSError):
            begun = (manifest if manifest.is_file() else run).stat().st_mtime
            found.append((manifest.is_file(), begun, run))
    found.sort()
    old = found[: max(0, len(found) - keep)]
    return [Thing("runs", run, size(run), now - begun) for _, begun, run in old]


def unclaimed(thing: Thing) -> bool:
    """Whether nobody claims a thing: `remove` would take it."""
    with alone(thing.path) as ours:
        return ours


def trim(cache_dir: Path, max_bytes: int = MAX_CACHE, *, every: float = 0.0) -> list[Thing]:
    """Brings the caches down to `max_bytes`, at most once in `every` seconds; returns what went."""
    stamp = cache_dir / ".trimmed"
    try:
        if every and time.time() - stamp.stat().st_mtime < every:
            return []
    except OSError:
        pass  # never done yet
    with contextlib.suppress(OSError):
        stamp.touch()
    return shrink(cached(cache_dir), max_bytes, remove)


def beyond(folders: Iterable[str], max_bytes: int) -> str:
    """A line where the folders that a run needs are by themselves more than all caches may hold; else empty.

    They stay while the run lives, and are the first to go after it.
    """
    needed = sum(size(Path(folder)) for folder in set(folders))
    if needed <= max_bytes:
        return ""
    enough = math.ceil(needed / (1 << 30)) + 1
    return (
        f"max_cache: expected {readable(needed)} for the inputs and goldens of this run, got {readable(max_bytes)}; "
        f"try OPSCOPE_MAX_CACHE={enough}G, or the next run computes them again"
    )


def remove(thing: Thing) -> bool:
    """Removes one file or folder unless it is claimed; whether it is gone."""
    path = thing.path
    with alone(path) as ours:
        if not ours:
            return False
        try:
            if not path.is_dir():
                path.unlink()
                return True
            gone = path if path.name.startswith(GONE) else path.with_name(f"{GONE}{os.getpid()}-{path.name}")
            path.rename(gone)
            shutil.rmtree(gone)
        except OSError:
            return False  # somebody was faster, or the disk is read-only
    return True


def size(path: Path) -> int:
    """Bytes of a file, or of all files of a folder; those that vanish meanwhile count nothing."""
    total = 0
    with contextlib.suppress(OSError):
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            return found.st_size
        with os.scandir(path) as entries:
            total = sum(size(Path(entry.path)) for entry in entries)
    return total


def _at_depth(folder: Path, depth: int) -> Iterator[Path]:
    """What lies `depth` folders below."""
    try:
        below = sorted(folder.iterdir())
    except OSError:
        return
    for path in below:
        if depth == 1:
            yield path
        else:
            yield from _at_depth(path, depth - 1)


def table(there: Sequence[Thing], gone: Sequence[Thing], verb: str) -> str:
    """All things and those that are removed, per kind, with their sizes."""
    rows = [("", "total", "", verb, "")]
    for kind in ("runs", *KINDS):
        rows.append((kind, *_count([t for t in there if t.kind == kind]), *_count([t for t in gone if t.kind == kind])))
    rows.append(("all", *_count(there), *_count(gone)))
    return "\n".join(f"{a:<12}{b:>8}{c:>12}{d:>12}{e:>12}".rstrip() for a, b, c, d, e in rows)


def _count(things: Sequence[Thing]) -> tuple[str, str]:
    return str(len(things)), readable(sum(thing.size for thing in things))


def readable(count: int) -> str:
    """Bytes as a person reads them."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
