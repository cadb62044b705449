"""Has exporters run: each model in a process of its own, its StableHLO kept by source and framework version.

A kept export is a folder `modules/<key>/` of the cache with what `opscope.models.frontends.child` wrote. Imported by
pytest processes: no framework is imported here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opscope.harness.cache import export_folder, upkeep
from opscope.harness.cache.claims import Claims
from opscope.harness.record.errors import InputError
from opscope.models import frontends
from opscope.models.frontends.base import Source
from opscope.models.frontends.child import ARGUMENTS

EXPORT_SECONDS = 900.0
"""An exporter that takes longer is ended: its model is `export_failed`."""

THREADS = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""Environment that makes XLA and BLAS single-threaded, so that digits repeat."""

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DIFFUSERS_OFFLINE": "1"}
"""Environment in which no framework's hub is asked for anything."""


@dataclass(frozen=True)
class Export:
    """What an exporter is asked for."""

    framework: str
    source: Source
    files: tuple[str, ...]
    """The files that the model depends on, the exporter's own among them."""

    def key(self) -> str:
        """Name of the folder of the export: the model's source, the request, the exporter and its framework."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(_digest(Path(file)))
        # The place of a model's file is not part of what it is.
        asked = {**asdict(self.source), "path": Path(self.source.path).name}
        told = {"framework": self.framework, "asked": asked, "versions": frontends.versions(self.framework)}
        digest.update(json.dumps(told, sort_keys=True).encode())
        return digest.hexdigest()[:20]


class ExportFailed(Exception):  # noqa: N818 - the outcome of one model, not an error of ours
    """A model did not get through its exporter."""

    def __init__(self, stage: str, error: str, trace: str) -> None:
        super().__init__(error)
        self.stage, self.error, self.trace = stage, error, trace


def _digest(path: Path) -> bytes:
    """SHA-256 of a file, or of all files of a folder (a SavedModel)."""
    if not path.is_dir():
        return hashlib.sha256(path.read_bytes()).digest()
    found = hashlib.sha256()
    for inner in sorted(p for p in path.rglob("*") if p.is_file()):
        found.update(inner.relative_to(path).as_posix().encode() + inner.read_bytes())
    return found.digest()


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every child that runs a framework or XLA: one thread, no network."""
    flags = " ".join(f for f in (os.environ.get("XLA_FLAGS", ""), THREADS["XLA_FLAGS"]) if f)
    return {**os.environ, **THREADS, **OFFLINE, "XLA_FLAGS": flags, "TF_CPP_MIN_LOG_LEVEL": "2",
            "JAX_PLATFORMS": "cpu", **(extra or {})}  # fmt: skip


def exported(export: Export, cache: Path, max_cache: int, claims: Claims) -> Path:
    """The folder with the export, made if it is not there; it stays for as long as `claims` holds it.

    Raises ExportFailed for what the model or its framework raises, InputError for what the exporter refuses and for a
    cache that cannot be written.
    """
    folder = cache / "modules" / export.key()
    while not _claimed(folder, claims):  # again where somebody clears up just now
        _make(export, folder, max_cache)
    export_folder.used(folder)
    return folder


def _claimed(folder: Path, claims: Claims) -> bool:
    """Whether an export is there as a whole, and claimed."""
    if not (folder / ARGUMENTS).is_file():
        return False
    claims.hold(folder)
    return (folder / ARGUMENTS).is_file()


def _make(export: Export, folder: Path, max_cache: int) -> None:
    """Has an exporter make `folder`."""
    place = export_folder.make_dir(folder.parent)
    upkeep.trim(folder.parent.parent, max_cache, every=upkeep.EVERY_SECONDS)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=upkeep.MAKING, dir=place))
    except OSError as error:
        raise export_folder.unwritable("cache folder", place, error) from None
    claims = Claims()
    claims.hold(temporary)
    try:
        _run(export, temporary)
        (temporary / "log.txt").unlink(missing_ok=True)
        try:
            temporary.rename(folder)
        except OSError:
            if not (folder / ARGUMENTS).is_file():  # else another process was faster: theirs stays
                raise
    finally:
        claims.close()
        shutil.rmtree(temporary, ignore_errors=True)


def _run(export: Export, folder: Path) -> None:
    """One exporter at work until it ends. Raises ExportFailed or InputError."""
    log = folder / "log.txt"
    task = {"framework": export.framework, **asdict(export.source), "folder": str(folder)}
    last: dict[str, Any] = {"event": "stage", "stage": "build"}
    late = threading.Event()
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "opscope.models.frontends.child"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output, env=environment(frontends.get(export.framework).environment), start_new_session=True,
        )  # fmt: skip

        def end() -> None:
            late.set()
            os.killpg(child.pid, signal.SIGKILL)

        clock = threading.Timer(EXPORT_SECONDS, end)
        clock.start()
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(json.dumps(task).encode())
            child.stdin.close()
            for line in child.stdout:
                last = json.loads(line)
            code = child.wait()
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        finally:
            clock.cancel()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()
    _judge(last, code, late.is_set(), log)


def _judge(last: Mapping[str, Any], code: int, late: bool, log: Path) -> None:
    """Raises what the last word of an exporter, or its silence, means; nothing where it is done."""
    if last["event"] == "refused":
        raise InputError(last["where"], last["expected"], last["got"], last["hint"])
    if last["event"] == "failed":
        raise ExportFailed(last["stage"], last["error"], last["traceback"])
    if last["event"] != "done":
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
        how = f"more than {EXPORT_SECONDS:g} s" if late else how
        said = log.read_text(errors="replace") if log.is_file() else ""
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith("Fatal Python error")]  # the stack comes after it
        word = (fatal or lines or ["no output"])[-1]
        error = f"the exporter ended ({how}): {word}"[:300]
        raise ExportFailed(str(last["stage"]), error, said[-20_000:])
