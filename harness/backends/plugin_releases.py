"""PJRT plugins of a release that need not be installed: `tt@0.1.2`, `pjrt:NAME@1.0`, `tt@FILE.whl`.

The wheel is fetched once by pip and unpacked into the cache, where `opscope clean` finds it; nothing of it is installed
or imported. A lane loads its library beside whatever else is there.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path

from opscope.base import stored
from opscope.base.atomic_write import new_folder
from opscope.base.damage import Damaged
from opscope.base.plugins import plugins
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.backends.plugin_library import GROUPS, Library, libraries_below, short_name
from opscope.harness.cache import package_index
from opscope.harness.cache.claims import Claims
from opscope.harness.cache.export_folder import cache_dir
from opscope.harness.cache.upkeep import UNFINISHED
from opscope.harness.record.errors import InputError

FOLDER = "releases"
"""The folder of the cache."""
MOST_BYTES = 4 << 30
"""The largest wheel that is unpacked: no release is larger, a damaged one may say so."""
_LIBRARY = "library.json"
_CLAIMS = Claims()
"""The releases that this process uses, as long as it lives."""


def find(where: str, distribution: str, release: str) -> Library:
    """The library of a release, fetched and unpacked if it is not there yet.

    `release` is a version of the distribution, or the path of a wheel. Raises InputError for one that cannot be had.
    """
    return _found(where, distribution, release, cache_dir() / FOLDER)


def distribution_of(word: str) -> str:
    """The distribution that the name of a plugin means: that of an installed one, or a distribution itself."""
    points = [point for group in GROUPS for point in plugins(group)]
    near = [point for point in points if word in (point.name, short_name(point.name))]
    named = {point.dist.name for point in near if point.dist is not None}
    return named.pop() if len(named) == 1 else word


@cache
def _found(where: str, distribution: str, release: str, cache_dir: Path) -> Library:
    if release.endswith(".whl"):
        return _unpacked(where, package_index.wheel(where, release), cache_dir)
    kept = cache_dir / _safe(f"{distribution}-{release}")
    return _kept(kept) or _fetched(where, distribution, release, kept)


def _kept(folder: Path) -> Library | None:
    """The library in a folder of the cache; None if there is none, or if it is no longer what was unpacked."""
    try:
        entry = stored.read_json(folder / _LIBRARY)
        library = Library(entry["name"], folder / entry["file"], entry["distribution"], entry["version"])
        if library.digest() == entry["sha256"]:
            _CLAIMS.hold(folder)
            os.utime(folder)
            return library
    except (OSError, Damaged, KeyError, TypeError, ValueError):
        pass
    return None


def _fetched(where: str, distribution: str, release: str, kept: Path) -> Library:
    """Has pip fetch the wheel. Raises InputError with the releases that there are."""
    with TemporaryFolder("wheel") as temporary:
        print(f"{where}: fetching {distribution} {release}, once", file=sys.stderr, flush=True)
        wheel = package_index.fetch(where, distribution, release, temporary)
        return _unpacked(where, wheel, kept.parent, kept.name)


def kept(distribution: str) -> list[str]:
    """The releases of a distribution in the cache."""
    before = _safe(f"{distribution}-")
    names = [path.parent.name for path in (cache_dir() / FOLDER).glob(f"{before}*/{_LIBRARY}")]
    return [release for name in names if "-" not in (release := name.removeprefix(before))]


def release_date(distribution: str, release: str) -> datetime | None:
    """When a release that was fetched was made: the newest time of a file in its wheel; None if that is not known."""
    try:
        entry = stored.read_json(cache_dir() / FOLDER / _safe(f"{distribution}-{release}") / _LIBRARY)
        return datetime.fromisoformat(entry["made"])
    except (OSError, Damaged, KeyError, TypeError, ValueError):
        return None


def _unpacked(where: str, wheel: Path, cache_dir: Path, name: str = "") -> Library:
    """Unpacks a wheel into a folder of the cache, as a whole or not at all."""
    digest = package_index.digest(wheel)
    folder = cache_dir / (name or _safe(f"{wheel.stem}-{digest[:12]}"))
    if not name and (library := _kept(folder)) is not None:
        return library
    cache_dir.mkdir(parents=True, exist_ok=True)
    making = new_folder(cache_dir, UNFINISHED)
    try:
        _extract(where, wheel, making)
        unpacked = _library_in(where, making, wheel)
        entry = {"name": unpacked.name, "file": str(unpacked.path.relative_to(making)), "sha256": unpacked.digest()}
        more = {"distribution": unpacked.distribution, "version": unpacked.version, "wheel": digest}
        made = {"made": time.isoformat()} if (time := package_index.made(wheel)) is not None else {}
        stored.write_json(making / _LIBRARY, {**entry, **more, **made})
        shutil.rmtree(folder, ignore_errors=True)  # it is damaged
        with contextlib.suppress(OSError):  # somebody else was faster
            making.rename(folder)
    except OSError as error:
        hint = "room on that disk, or another OPSCOPE_CACHE_DIR"
        raise InputError(where, f"a folder {cache_dir} to unpack a release into", error.strerror or "", hint) from error
    finally:
        shutil.rmtree(making, ignore_errors=True)
    library = _kept(folder)
    if library is None:
        raise InputError(where, f"the library of {wheel.name} in {folder}", "another one", "opscope clean")
    return library


def _extract(where: str, wheel: Path, folder: Path) -> None:
    """Raises InputError for what is no archive, is too large, or would write elsewhere."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = sum(each.file_size for each in archive.infolist())
            if size > MOST_BYTES:
                raise InputError(
                    where, f"a wheel of at most {MOST_BYTES >> 30} GiB", f"{size >> 20} MiB", "another one"
                )
            archive.extractall(folder)
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise InputError(
            where, "a wheel that can be unpacked", f"{wheel.name}: {error}", "another copy of it"
        ) from error


def _library_in(where: str, folder: Path, wheel: Path) -> Library:
    """The one PJRT library of an unpacked wheel, with the name under which its package registers it."""
    files = libraries_below(folder)
    if len(files) != 1:
        raise InputError(where, "a wheel with one PJRT library", f"{len(files)} in {wheel.name}", "pjrt:FILE.so")
    distribution, version = package_index.name_and_version(wheel)
    return Library(_registered(folder) or files[0].stem, files[0], distribution, version)


def _registered(folder: Path) -> str:
    """The name of the entry point in the wheel's own groups; empty if it has none."""
    for path in folder.glob("*.dist-info/entry_points.txt"):
        parser = configparser.ConfigParser(delimiters=("=",))
        try:
            parser.read_string(path.read_text(encoding="utf-8"))
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue
        names: Sequence[str] = [name for group in GROUPS if parser.has_section(group) for name in parser.options(group)]
        if names:
            return names[0]
    return ""


def _safe(name: str) -> str:
    """A name for a folder of the cache."""
    return re.sub(r"[^\w.+-]", "_", name)
