"""Too little of something: shared memory, memory, files, processes, room for the cache or for temporary files.

A sweep runs with less of one thing than it wants. It must end within its limit with a record of every op, or refuse in
one line with exit code 2; no traceback. Mounts are made in a mount namespace of the attempt's own (`unshare`); where
that is not allowed, the attempt is skipped, which is said.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.attacks.attempt import Attempt, Ending
from ci.attacks.called import UNEXPLAINED
from ci.faults import module_text
from ci.sweep_command import sweep_command

OPS, LIMIT = 8, 240
NAMESPACE = ("unshare", "--mount", "--map-root-user") if os.geteuid() else ("unshare", "--mount")


@dataclass(frozen=True)
class Lack:
    """Something of which there is too little."""

    name: str
    limits: tuple[tuple[int, int], ...] = ()
    """Resource limits of the sweep's processes."""
    mounts: tuple[tuple[str, int], ...] = ()
    """Folders (below the attempt's folder unless absolute) that are small file systems, and their kilobytes."""
    options: tuple[str, ...] = ()
    as_user: bool = False
    """Whether the limit binds ordinary users alone."""


LACKS = (
    Lack("no room in /dev/shm", mounts=(("/dev/shm", 4),)),
    Lack("no room for temporary files", mounts=(("tmp", 4),)),
    Lack("no room for the cache", mounts=(("cache", 16),)),
    Lack("no room for the run", mounts=(("run", 16),)),
    Lack("64 files", limits=((resource.RLIMIT_NOFILE, 64),)),
    Lack("20 files", limits=((resource.RLIMIT_NOFILE, 20),)),
    Lack("1 GB of addresses", limits=((resource.RLIMIT_AS, 1 << 30),)),
    Lack("memory of an op", options=("--op-memory", "100M")),
    Lack("files of 4 kB", limits=((resource.RLIMIT_FSIZE, 4096),)),
    Lack("8 processes", limits=((resource.RLIMIT_NPROC, 8),), as_user=True),
)
SAMPLE, FULL = 1, len(LACKS)


def attack(count: int, seed: int, folder: Path) -> Iterator[Attempt]:
    """One attempt for each lack, again and again."""
    for number in range(count):
        lack = LACKS[(number + seed - 1) % len(LACKS)]
        reason = _not_possible(lack)
        if reason:
            yield Attempt(lack.name, f"skipped: {reason}", "no effect")
            continue
        place = folder / str(number)
        place.mkdir()
        yield _attempt(lack, place)
        shutil.rmtree(place, ignore_errors=True)


def _attempt(lack: Lack, place: Path) -> Attempt:
    """Runs a sweep that lacks something."""
    (place / "ops.mlir").write_text(module_text(OPS), encoding="utf-8")
    folders = {name: place / name for name in ("tmp", "cache", "run")}
    for made in folders.values():
        made.mkdir()
    environment = {**os.environ, "TMPDIR": str(folders["tmp"]), "OPSCOPE_CACHE_DIR": str(folders["cache"])}
    options = "--model ops.mlir --backend stablehlo-interpreter --reruns 0"
    command = sweep_command(options, "--run-dir", str(folders["run"] / "r"), *lack.options)
    try:
        done = subprocess.run(
            _with_mounts(command, lack, place),
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
            preexec_fn=_limited(lack.limits),
        )
    except subprocess.TimeoutExpired as error:
        return Attempt(lack.name, f"{LIMIT} s", "stuck", str(error.output)[-3000:])
    text = done.stdout + done.stderr
    records = _records(done.stdout)
    shown = f"exit {done.returncode}\n{text[-3000:]}"
    model_failed = any(f" + 1 {how}" in done.stdout for how in ("prepare_failed", "export_failed"))
    counted = done.returncode == 1 and (sum(records.values()) == OPS or model_failed)
    refused = done.returncode in (2, 4) and "expected" in text
    ending: Ending = "silent"
    if any(word in text for word in UNEXPLAINED):
        ending = "traceback"
    elif done.returncode == 0 and records == {"success": OPS}:
        ending = "no effect"
    elif counted or refused or _no_process(text):
        ending = "noticed"
    return Attempt(lack.name, f"exit {done.returncode}, {records or text.strip()[-200:]}", ending, shown)


def _records(output: str) -> dict[str, int]:
    """Status -> number of ops, from the line in which the counts add up."""
    line = next((line for line in output.splitlines() if " unique ops = " in line), "")
    parts = (part.split() for part in line.partition(" = ")[2].split(" + ") if part)
    return {words[1]: int(words[0]) for words in parts if len(words) > 1}


def _no_process(text: str) -> bool:
    """Whether Python itself could not start: nothing of opscope ran."""
    return "Fatal Python error" in text or "error while loading shared libraries" in text


def _with_mounts(command: Sequence[str], lack: Lack, place: Path) -> list[str]:
    """The command in a mount namespace of its own, where the lack needs one."""
    if not lack.mounts:
        return [*command]
    mounts = [f"mount -t tmpfs -o size={size}k tmpfs {json.dumps(str(place / name))}" for name, size in lack.mounts]
    return [*NAMESPACE, "sh", "-c", " && ".join([*mounts, 'exec "$@"']), "sh", *command]


def _limited(limits: Sequence[tuple[int, int]]) -> Callable[[], None] | None:
    """A function that lowers the limits of the process that calls it."""

    def lower() -> None:
        for number, value in limits:
            resource.setrlimit(number, (value, value))

    return lower if limits else None


def _not_possible(lack: Lack) -> str:
    """Why this machine cannot make the lack; empty if it can."""
    if lack.as_user and os.geteuid() == 0:
        return "the limit does not bind root"
    if not lack.mounts:
        return ""
    if shutil.which("unshare") is None:
        return "there is no `unshare`"
    tried = [*NAMESPACE, "sh", "-c", "mount -t tmpfs -o size=4k tmpfs /mnt"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no mount namespace may be made: {done.stderr.strip()[:100]}"
