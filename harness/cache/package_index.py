"""Asks pip for releases of packages: the one place that calls it, with what it says where there is no such release."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.record.errors import InputError

SECONDS = 1800
"""How long pip may take."""
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
_NO_RELEASE = "0.dev0+none"
"""A version that no release has: pip says then which there are."""
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_KNOWN = re.compile(r"\(from versions: ([^)]*)\)")
_YANKED = re.compile(r"Reason for being yanked: (.*)", re.DOTALL)
_LIKE_A_WHEEL = re.compile(r"[\w.]+-[\w.!+]+(?:-\w+)?-[\w.]+-[\w.]+-[\w.]+\.whl")


def wheel(where: str, file: str) -> Path:
    """The path of a wheel. Raises InputError if there is no such file, or if it has lost its name."""
    path = Path(file)
    if not path.is_file():
        raise InputError(where, "the file of a wheel", f"no file {file}", _typed(where, "VERSION"))
    if not _LIKE_A_WHEEL.fullmatch(path.name):
        raise InputError(where, "a wheel by its whole name", path.name, "the name that it was published under")
    return path


def name_and_version(wheel: Path) -> tuple[str, str]:
    """Which package a wheel is of, as the index spells it, and at which version."""
    name, version = wheel.name.split("-")[:2]
    return re.sub(r"[-_.]+", "-", name).lower(), version


def fetch(where: str, package: str, release: str, folder: str) -> Path:
    """Has pip fetch the wheel of a release into a folder. Raises InputError with the releases that there are, and where
    pip takes what was asked for as another name of a release (`1` of 1.0): records would have both."""
    done = run(where, "download", "--no-deps", "--dest", folder, f"{package}=={release}")
    wheels = sorted(Path(folder).glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise refusal(where, package, release, done)
    version = name_and_version(wheels[0])[1].replace("_", "+")  # some builders write 1.0+cpu so
    if version != release:
        raise InputError(where, f"a release of {package} as it is published", release, _typed(where, version))
    if withdrawn := _YANKED.search(done.stderr):
        print(f"{where}: its publisher has withdrawn it: {' '.join(withdrawn[1].split())}", file=sys.stderr, flush=True)
    return wheels[0]


def made(wheel: Path) -> datetime | None:
    """The newest time of a file in a wheel; None where its builder wrote none, which zip files hold as 1980."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            newest = max((each.date_time for each in archive.infolist()), default=_NO_TIME)
    except zipfile.BadZipFile:
        return None
    return datetime(*newest, tzinfo=UTC) if newest[0] > _NO_TIME[0] else None


def digest(file: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def run(where: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs pip for this interpreter, with wheels alone. Raises InputError if it cannot be run."""
    command = [sys.executable, *_PIP, *words[:1], "-q", "--only-binary", ":all:", *words[1:]]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(where, "pip to fetch a release", str(error), "NAME@FILE.whl") from error


def known_releases(where: str, package: str) -> list[str]:
    """The releases of a package that pip can fetch for this Python and machine, by version, the oldest first.

    Raises InputError where pip knows none.
    """
    with TemporaryFolder("wheel") as temporary:
        done = run(where, "download", "--no-deps", "--dest", temporary, f"{package}=={_NO_RELEASE}")
    if not (versions := _known_in(done)):
        raise refusal(where, package, "none", done)
    return versions  # pip sorts them


def _known_in(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The releases that pip says it knows."""
    known = _KNOWN.search(done.stderr)
    return [version for version in known[1].split(", ") if version != "none"] if known is not None else []


def is_preview(release: str) -> bool:
    """Whether a release is one before a release (`1.0rc1`, `1.0.dev2`), which pip does not take unless it is named."""
    return re.search(r"\d(a|b|rc)\d|\.dev\d", release) is not None


def refusal(where: str, package: str, release: str, done: subprocess.CompletedProcess[str]) -> InputError:
    """The line for a release that pip did not find, with those that there are, newest first, or its last words."""
    if versions := _known_in(done):
        newest = [version for version in versions if not is_preview(version)] or versions
        hint = ", ".join(_typed(where, version) for version in reversed(newest[-8:]))
        return InputError(where, f"a release of {package} for this Python and machine", release, hint)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    hint = _typed(where, "FILE.whl") + (f" (pip: {lines[-1].strip()})" if lines else "")
    return InputError(where, f"an index in which pip finds releases of {package} for this machine", "none", hint)


def _typed(where: str, release: str) -> str:
    """A release as it is typed where another stands: `where` ends with it, `--backend xla@99`."""
    name = where.partition(" ")[2].partition("@")[0]
    return f"{name}@{release}" if name else release
