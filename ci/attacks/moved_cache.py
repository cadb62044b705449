"""A cache that was moved, copied, is read-only or half missing: every record must be what it was where it was made."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from ci.attacks.attempt import Attempt
from ci.attacks.small_cache import run, write_models

SAMPLE, FULL = 2, 40

MADE = "as-made"
"""A copy of the cache as the first run left it, from which each attempt begins."""

READ_ONLY = (
    "unshare",
    "-m",
    "sh",
    "-c",
    'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"',
    "sh",
)
"""Runs a command in a mount namespace of its own, in which a folder is read-only, also for root."""


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """Brings a cache elsewhere in each way, and runs on it with kept verdicts, without them, and on several workers."""
    draw = random.Random(seed)
    models = write_models(folder)
    right = run(models, folder / "base", folder / "run").sound()
    shutil.copytree(folder / "base", folder / MADE)  # whatever happens where the cache was made
    ways = list(WAYS)
    for number in range(count):
        way = ways[number % len(ways)]
        options = (("--no-cache",), (), ("--no-cache", "-n", "2"))[number // len(ways) % 3]
        place = folder / f"place{number}"
        prefix = WAYS[way](folder / MADE, place, draw)
        said = run(models, place / "cache", folder / "run", *options, prefix=prefix)
        ending = said.beside(right)
        yield Attempt(way, " ".join(options) or "with kept verdicts", ending, said.output if ending == "silent" else "")
        shutil.rmtree(place, ignore_errors=True)


def _copied(base: Path, place: Path, _: random.Random) -> tuple[str, ...]:
    shutil.copytree(base, place / "cache")
    return ()


def _moved(base: Path, place: Path, draw: random.Random) -> tuple[str, ...]:
    _copied(base, place / "before", draw)
    (place / "before" / "cache").rename(place / "cache")
    return ()


def _another_stays(base: Path, place: Path, draw: random.Random) -> tuple[str, ...]:
    """The cache is a copy, and what lies at the old place has other values: they must not be read."""
    _copied(base, place, draw)
    _damage_values(base.with_name("base"))
    return ()


def _damage_values(cache: Path) -> None:
    for path in cache.rglob("values/*.npy"):
        path.write_bytes(path.read_bytes()[:-1] + b"\x7f")


def _half_of_the_files(base: Path, place: Path, draw: random.Random) -> tuple[str, ...]:
    _copied(base, place, draw)
    for path in [path for path in sorted((place / "cache").rglob("*")) if path.is_file()]:
        if draw.random() < 0.5:
            path.unlink()
    return ()


def _half_of_the_entries(base: Path, place: Path, draw: random.Random) -> tuple[str, ...]:
    _copied(base, place, draw)
    for path in sorted((place / "cache").glob("*/*")):
        if draw.random() < 0.5:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return ()


def _read_only(base: Path, place: Path, draw: random.Random) -> tuple[str, ...]:
    _copied(base, place, draw)
    prefix = (*READ_ONLY, str(place / "cache"))
    test = subprocess.run([*prefix, "touch", str(place / "cache" / "written")], capture_output=True, check=False)
    if test.returncode == 0 or b"Read-only" not in test.stderr:
        raise RuntimeError(
            f"expected a mount namespace, got {test.stderr.decode()!r}; try as root, or with user namespaces"
        )
    return prefix


def _read_only_and_half_missing(base: Path, place: Path, draw: random.Random) -> tuple[str, ...]:
    prefix = _read_only(base, place, draw)
    for path in sorted((place / "cache").glob("*/*")):
        if draw.random() < 0.5:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return prefix


def _read_only_and_damaged(base: Path, place: Path, draw: random.Random) -> tuple[str, ...]:
    prefix = _read_only(base, place, draw)
    _damage_values(place / "cache")
    return prefix


WAYS: dict[str, Callable[[Path, Path, random.Random], tuple[str, ...]]] = {
    "moved": _moved,
    "half of the entries": _half_of_the_entries,
    "read-only, damaged": _read_only_and_damaged,
    "read-only": _read_only,
    "copied": _copied,
    "half of the files": _half_of_the_files,
    "read-only, half missing": _read_only_and_half_missing,
    "another cache at the old place": _another_stays,
}
"""What is done to the cache -> what does it, and the words that a command line needs in front."""
