"""Environments of a release: what `xla@0.10.1` or `iree@3.12.0` needs in place of what is installed here.

pip installs the packages of the release into a folder of the cache, once; `opscope clean` finds it there. A process
that has the folder first on its path has them, and all else as it is here. Of what they need themselves, only what is
not installed here comes with them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from opscope.base import stored
from opscope.base.atomic_write import new_folder
from opscope.base.damage import Damaged
from opscope.base.digest import words_digest
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.cache import package_index
from opscope.harness.cache.claims import Claims, alone_in
from opscope.harness.cache.export_folder import cache_dir
from opscope.harness.cache.upkeep import UNFINISHED
from opscope.harness.record.errors import InputError

FOLDER = "environments"
"""The folder of the cache."""
_INSTALLED = "environment.json"
_REPORT = ".report.json"
_CLAIMS = Claims()
"""The environments that this process uses, as long as it lives."""


@dataclass(frozen=True)
class Environment:
    """The packages of a release."""

    folder: Path
    versions: Mapping[str, str]
    """Name -> version of what pip installed."""
    digest: str
    """Changes with the content of any of these packages: of the SHA-256 of their wheels."""

    def variables(self) -> dict[str, str]:
        """What a process of this interpreter needs in its environment to have these packages."""
        rest = os.environ.get("PYTHONPATH")
        return {"PYTHONPATH": f"{self.folder}{os.pathsep}{rest}" if rest else str(self.folder)}


def find(where: str, packages: str, release: str, beside: str = "") -> Environment:
    """The environment of a release, made if it is not there yet.

    `packages` are the names of what is installed at the release, the compiler's own first; `release` is a version, or
    the path of a wheel of one of them, which decides the version of the others. `beside` is a package that has to be
    there at any version. Raises InputError for a release that cannot be had.
    """
    return _found(where, tuple(packages.split()), release, beside, cache_dir() / FOLDER)


@cache
def _found(where: str, packages: tuple[str, ...], release: str, beside: str, cache_dir: Path) -> Environment:
    requirements = [f"{package}=={release}" for package in packages]
    digest = ""
    if release.endswith(".whl"):
        wheel = package_index.wheel(where, release)
        digest = f"-{package_index.digest(wheel)[:12]}"
        name, version = package_index.name_and_version(wheel)
        others = [f"{package}=={version}" for package in packages if package != name]
        requirements, release = [str(wheel.absolute()), *others], version
    folder = cache_dir / _folder_name(packages[0], f"{release}{digest}")
    if (kept := _kept(folder, beside)) is not None:
        return kept
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with alone_in(cache_dir):  # whoever was here first may have made it
            return _kept(folder, beside) or _made(where, packages, release, requirements, beside, folder)
    except OSError as error:
        hint = "room on that disk, or another OPSCOPE_CACHE_DIR"
        raise InputError(where, f"a folder {cache_dir} to install a release into", str(error), hint) from error


def kept(packages: str) -> list[str]:
    """The releases in the cache for this Python and machine, without those that a wheel of one's own decided."""
    before, after = _folder_name(packages.partition(" ")[0], "RELEASE").split("RELEASE")
    names = [path.parent.name for path in (cache_dir() / FOLDER).glob(f"{before}*{after}/{_INSTALLED}")]
    releases = [name.removeprefix(before).removesuffix(after) for name in names]
    return [release for release in releases if "-" not in release]


def release_date(packages: str, release: str) -> datetime | None:
    """When a release that was installed was made: the newest time of a file in its own wheel; None if not known."""
    folder = cache_dir() / FOLDER / _folder_name(packages.partition(" ")[0], release)
    try:
        return datetime.fromisoformat(stored.read_json(folder / _INSTALLED)["made"])
    except (OSError, Damaged, KeyError, TypeError, ValueError):
        return None


def _folder_name(package: str, release: str) -> str:
    """The folder of a release for this Python and machine."""
    for_python = f"{sys.implementation.cache_tag}-{os.uname().machine}"
    return re.sub(r"[^\w.+-]", "_", f"{package}-{release}-{for_python}")


def _kept(folder: Path, beside: str) -> Environment | None:
    """The environment in a folder of the cache; None if there is none, or if its files are no longer those of pip, or
    if what has to be beside it was here when it was made, and is here no more."""
    try:
        entry = stored.read_json(folder / _INSTALLED)
        if entry["files"] == _files_digest(folder):
            _CLAIMS.hold(folder)
            os.utime(folder)
            versions = {package["name"]: package["version"] for package in entry["packages"]}
            if beside and beside not in versions:
                metadata.version(beside)
            return Environment(folder, versions, words_digest(*(package["sha256"] for package in entry["packages"])))
    except (OSError, Damaged, KeyError, TypeError, ValueError, metadata.PackageNotFoundError):
        pass
    return None


def _made(
    where: str, packages: Sequence[str], release: str, requirements: Sequence[str], beside: str, folder: Path
) -> Environment:
    """Has pip install a release into a folder of the cache, as a whole or not at all. What decides the release, a wheel
    or a version, is the first of the requirements."""
    print(f"{where}: installing {packages[0]} {release} beside what is here, once", file=sys.stderr, flush=True)
    making = new_folder(folder.parent, UNFINISHED)
    with Claims() as claims, TemporaryFolder("wheel") as fetched:
        claims.hold(making)
        try:
            wheel = Path(requirements[0])
            if wheel.suffix != ".whl":
                wheel = package_index.fetch(where, packages[0], release, fetched)
                requirements = [str(wheel), *requirements[1:]]
            made = package_index.made(wheel)
            report = str(making / _REPORT)
            done = package_index.run(where, "install", "--dry-run", "--report", report, *requirements, *beside.split())
            if done.returncode:
                raise package_index.refusal(where, packages[0], release, done)
            others = [each for each in _reported(making) if each["name"] not in packages]
            wanted = [*requirements, *(f"{each['name']}=={each['version']}" for each in others)]
            words = ("--no-deps", "--no-compile", "--target", str(making), "--report", report)
            done = package_index.run(where, "install", *words, *wanted)
            if done.returncode:
                raise package_index.refusal(where, packages[0], release, done)
            installed = sorted(_reported(making), key=lambda each: each["name"])
            (making / _REPORT).unlink()
            entry = {"packages": installed, "files": _files_digest(making)}
            stored.write_json(making / _INSTALLED, entry | ({"made": made.isoformat()} if made is not None else {}))
            shutil.rmtree(folder, ignore_errors=True)  # it is damaged
            making.rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    environment = _kept(folder, beside)
    if environment is None:
        raise InputError(where, f"what pip installed in {folder}", "other files", "opscope clean")
    return environment


def _reported(folder: Path) -> list[dict[str, str]]:
    """What pip has installed or would install, by its own report: name, version and the SHA-256 of each wheel."""
    report: dict[str, Any] = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
    return [
        {
            "name": re.sub(r"[-_.]+", "-", each["metadata"]["name"]).lower(),
            "version": each["metadata"]["version"],
            "sha256": each["download_info"]["archive_info"]["hashes"]["sha256"],
        }
        for each in report["install"]
    ]


def _files_digest(folder: Path) -> str:
    """A digest of the names and sizes of an environment's files, without what Python itself writes there."""
    return words_digest(*sorted(_files(folder, folder)))


def _files(root: Path, folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _files(root, Path(entry.path))
            elif entry.name != _INSTALLED:
                yield f"{Path(entry.path).relative_to(root)} {entry.stat(follow_symlinks=False).st_size}"
