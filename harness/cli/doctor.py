"""What this machine can do for opscope: one finding per part, each with the line that would make it usable."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

from opscope.base import machine
from opscope.base.cache_folder import NoCacheError, cache_folder, read_only
from opscope.base.installing import install_command
from opscope.base.page import Page
from opscope.base.results_folder import results_folder, set_aside
from opscope.base.server_connection import CONNECTING, bounded
from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.record.errors import InputError
from opscope.harness.record.masking import mask_secrets
from opscope.harness.record.signature import shorten
from opscope.harness.settings.settings import Resolved

GIB = 2**30
ENOUGH_MEMORY, ENOUGH_DISK = 4 * GIB, 2 * GIB
"""What the five models need at least, with one lane."""
KNOWN_BUG = "known bug"


@dataclass(frozen=True)
class Finding:
    """One part of the machine."""

    kind: str
    """`machine`, `backend`, `version` (of a part of a backend), `known bug`, `framework`, `database`."""
    name: str
    usable: bool
    found: str
    remedy: str = ""
    """The line that makes it usable; empty where it is."""
    needed: bool = True
    """Whether a default run needs it."""


def examine(settings: Resolved, folder: Path) -> list[Finding]:
    """All findings; `folder` is where runs would be written."""
    findings = [*_machine(settings, folder), *_backends(settings), *_known_bugs(), *_frameworks()]
    return [*findings, _database(settings, folder), *_refused(folder), *_own_scripts()]


def examine_backend(settings: Resolved, name: str) -> list[Finding]:
    """Goes through the life of one backend in a lane, without an op. Raises InputError if there is no such backend."""
    from opscope.harness.backends import registry
    from opscope.harness.lanes.lane import Lane, LaneConfig
    from opscope.harness.record.optest import RunContext, backend_label
    from opscope.harness.record.result_options import ResultOptions

    registry.check_name(name)
    label = backend_label(name)
    options = ResultOptions.of(settings.values)
    with TemporaryFolder("doctor") as folder, Lane(LaneConfig(RunContext("doctor", folder, name, options), {})) as lane:
        begun = time.monotonic()
        try:
            ready = lane.ready()
        except InputError as error:
            return [Finding("backend", label, False, f"expected {error.expected}, got {error.got}", error.hint)]
        took = time.monotonic() - begun
    got, remedy = _tried(lambda: _backend(name))
    steps = ", ".join((*_steps(name), "fingerprint", "warm_up"))
    return [
        Finding("backend", label, not remedy, got, remedy),
        Finding("backend", "life", True, f"{steps}: no error, {took:.1f} s"),
        Finding("backend", "fingerprint", True, ready.fingerprint),
        Finding("backend", "card", True, f"{ready.card_type}, floats {ready.data_format or 'as in the op'}"),
        *(Finding("version", part, True, version) for part, version in ready.versions.items()),
        *([Finding("backend", "commit", True, commit)] if (commit := _commit(ready.commit)) else []),
    ]


def _commit(commit: Mapping[str, str]) -> str:
    """The commit that a backend names as its compiler's, or why it names none."""
    return commit.get("problem") or " ".join(filter(None, (commit.get("revision"), commit.get("url"))))


def _steps(name: str) -> Iterator[str]:
    """The steps of a backend's life that come first, with where they happen."""
    from opscope.harness.backends import registry
    from opscope.harness.lanes import scratch

    declared = registry.declarations_of(name).methods
    if "load" in declared:
        yield f"load ({'once a run' if scratch.loads_once(name) else 'in each lane'})"
    if "open" in declared:
        yield "open"


def _machine(settings: Resolved, folder: Path) -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding(
        "machine",
        "Python",
        sys.version_info >= (3, 11),
        version,
        "" if sys.version_info >= (3, 11) else "install Python 3.11 or newer",
    )
    yield _compiled_files(Path(__file__))
    cores = machine.processors()
    yield Finding("machine", "cores", True, f"{cores} usable; try pytest -n {cores}" if cores > 1 else "1 usable")
    total, free = machine.machine_memory(), machine.free_memory()
    enough = free >= ENOUGH_MEMORY
    limited = ", which is the limit of this cgroup (a container's)" if any(machine.memory_limits()) else ""
    yield Finding(
        "machine",
        "memory",
        enough,
        f"{free / GIB:.1f} of {total / GIB:.1f} GiB free{limited}",
        "" if enough else f"free {ENOUGH_MEMORY // GIB} GiB, or lower --op-memory",
    )
    yield _disk("disk for runs", folder, "change to a writable folder")
    remedy = "export OPSCOPE_CACHE_DIR=<a writable folder>"
    try:
        folder = cache_folder(settings["cache_dir"])
        if read_only(folder):
            raise NoCacheError(f"{folder}, which is not writable, or a part of it is not")
        yield _disk("disk for the cache", folder, remedy)
    except NoCacheError as error:
        yield Finding("machine", "disk for the cache", False, error.got, remedy)


def _compiled_files(source: Path) -> Finding:
    """Whether Python keeps what it compiles of our sources. Else each process of a run compiles them again: 0.5 s."""
    kept = not sys.dont_write_bytecode or Path(cache_from_source(str(source))).exists()
    return Finding(
        "machine",
        "compiled files",
        kept,
        "kept" if kept else "compiled anew by every process",
        "" if kept else "unset PYTHONDONTWRITEBYTECODE",
        needed=False,
    )


def _disk(name: str, path: Path, remedy: str) -> Finding:
    """Free space and permission of the nearest existing folder at or above `path`."""
    place = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free
    writable = os.access(place, os.W_OK) and place.is_dir() and not _read_only(place)
    if not writable:
        return Finding("machine", name, False, f"{path} is not writable", remedy)
    text = f"{free / GIB:.1f} GiB free at {path}"
    if free < ENOUGH_DISK:
        return Finding("machine", name, False, text, f"free {ENOUGH_DISK // GIB} GiB, or {remedy}")
    return Finding("machine", name, True, text)


def _read_only(place: Path) -> bool:
    """Whether the file system is mounted read-only: os.access lets root pass."""
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)


def _backends(settings: Resolved) -> Iterator[Finding]:
    from opscope.harness.backends import registry

    for name in registry.names():
        needed = name in settings["backend"].split(",")
        got, remedy = _tried(lambda name=name: _backend(name))
        yield Finding("backend", name, not remedy, got, remedy, needed)
    yield Finding("backend", "FILE.yaml", True, "any compiler with a command line (opscope backend new)", needed=False)
    setting = settings["backend"]
    try:
        for name in registry.split_names(setting):
            registry.check_name(name)
    except InputError as error:
        source = settings.sources["backend"]
        yield Finding(
            "backend", setting, False, f"there is no such backend; it is set by {source}", f"--backend {error.hint}"
        )


def _known_bugs() -> Iterator[Finding]:
    """What installed compilers are known to do wrong, and how that shows."""
    from opscope.base.xla.xla_releases import known_bugs

    for release, bug in known_bugs():
        mended = f"; kept out of goldens by {bug.mended_by}" if bug.mended_by else ""
        releases = f"{bug.first} to {bug.last}" if bug.last else f"from {bug.first} on"
        text = f"{bug.what}: {bug.shows} ({bug.source}; {releases}){mended}"
        yield Finding(KNOWN_BUG, f"{bug.package} {release}", True, text, needed=False)


def _backend(name: str) -> tuple[str, str]:
    """The description of a backend and its remedy."""
    from opscope.harness.backends import registry

    backend = registry.load(name)
    remedy = backend.available()
    stages = ", ".join((*backend.stages, "compare"))
    if remedy is not None:
        return "not usable here", remedy
    return "; ".join(filter(None, (f"stages {stages}", backend.remark()))), ""


def _framework(name: str) -> tuple[str, str]:
    """The packages of a framework: text and remedy."""
    from opscope.models import frontends

    absent = ", ".join(frontends.absent(name))
    if absent:
        return f"{absent} not installed", frontends.install(name)
    return ", ".join(f"{package} {version}" for package, version in frontends.versions(name).items() if version), ""


def _frameworks() -> Iterator[Finding]:
    from opscope.models import registry

    for framework in sorted({registry.get(name).framework for name in registry.names()}):
        got, remedy = _tried(lambda name=framework: _framework(name))
        yield Finding("framework", framework, not remedy, got, remedy, needed=framework == "jax")


def _database(settings: Resolved, folder: Path) -> Finding:
    """Whether the database that runs are published to can be opened; nothing is written."""
    url = settings["publish"]
    if not url:
        path = results_folder(folder) / "opscope.sqlite"
        disk = _disk("SQLite", path.parent, "opscope publish RUN_DIR --to URL")
        return Finding("database", "SQLite", disk.usable, f"{path}" if disk.usable else disk.found, disk.remedy)
    got, remedy = _tried(lambda: _connect(url))
    return Finding("database", "database", not remedy, got, remedy)


def _refused(folder: Path) -> Iterator[Finding]:
    """Runs that a database refused: no later publish delivers them by itself."""
    for run in set_aside(folder):
        remedy = f"opscope publish {run.folder}, once that is mended, or removing it"
        yield Finding("database", run.folder.name, False, run.line, remedy, needed=False)


def _own_scripts() -> Iterator[Finding]:
    """What packages of backends do to programs that are not ours."""
    from opscope.harness.backends import registry

    for name in registry.own_names():
        if registry.declares(name, "acts_elsewhere") and (said := registry.load(name).elsewhere()) is not None:
            yield Finding("backend", "your scripts", False, *said, needed=False)


def _connect(url: str) -> tuple[str, str]:
    import sqlalchemy
    from sqlalchemy.exc import SQLAlchemyError

    masked = mask_secrets(url)

    try:
        engine = bounded(sqlalchemy.create_engine(url), CONNECTING)
    except ImportError as error:
        remedy = install_command("postgres") if error.name == "psycopg" else f"pip install {error.name}"
        return f"{masked}: no driver", remedy
    try:
        with engine.connect():
            return f"{masked} ({engine.dialect.name})", ""
    except SQLAlchemyError as error:
        # The driver's text may hold the URL: only the kind of error is told.
        return (
            f"{mask_secrets(url)}: {type(error).__name__}",
            f"start the server, or export OPSCOPE_PUBLISH={mask_secrets(url)}",
        )
    finally:
        engine.dispose()


def _tried(check: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """What `check` found, or what it raised as a finding: a broken part must not hide the others."""
    try:
        return check()
    except Exception as error:  # noqa: BLE001
        text = shorten(str(error), 160)
        return f"{type(error).__name__}: {text}", "pip install --force-reinstall opscope"


_DIGEST = re.compile(r"\b([0-9a-f]{16})[0-9a-f]{24,}\b")
"""A digest, of which people read the beginning; `--json` has all of it."""


def show(findings: list[Finding], page: Page) -> None:
    """Prints each finding, and below it what makes it usable. `off`: a part that a default run does without."""
    width = max((len(f.name) for f in findings), default=0)
    for finding in findings:
        mark, style = ("ok", "green") if finding.usable else ("no", "red") if finding.needed else ("off", "yellow")
        if finding.kind == KNOWN_BUG:
            mark, style = "bug", "yellow"
        head = f"{mark:<4}{finding.kind:<10} {finding.name:<{width}}  "
        texts = [_DIGEST.sub(r"\1", finding.found), *([f"try: {finding.remedy}"] if finding.remedy else [])]
        page.hanging([(head, style), *((" " * len(head), "") for _ in texts[1:])], texts)


def next_step(findings: list[Finding], backend: str | None) -> str:
    """What a person would do next: mend the first part that a run needs, else run something small."""
    for finding in findings:
        if finding.needed and not finding.usable:
            return f"{finding.name}: {finding.remedy or finding.found}"
    return "pytest --model mnist_mlp --op-by-op" + (f" --backend {backend}" if backend else "")


def in_order(findings: list[Finding]) -> bool:
    """Whether a default run can work here."""
    return all(finding.usable for finding in findings if finding.needed)
