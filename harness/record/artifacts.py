"""Artifacts: what ops and models leave in RUN/artifacts, and RUN/artifacts.json, which has the digest of each file.

    RUN/artifacts/<op id>/    full diagnostics and dumped IR
    RUN/artifacts/models/     traceback of each model that could not be exported
    RUN/artifacts.json        size and digest of each of these files, written when the run ends

The digests belong to the run, not to the records, because several records share a file: a rerun and a second backend
write their diagnostic in the place of an earlier one. While ops run, there are none. Folders that `opscope repro` and
`reduce` write below an op's own are the user's to change, and have none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from opscope.base import damage, regular_file, stored
from opscope.base.inner_path import inside
from opscope.base.stored import FileMark
from opscope.harness.record.masking import mask_secrets

ARTIFACT_DIR = "artifacts"
FILE = "artifacts.json"

LIMIT = 4 * 1024 * 1024
"""Longest text of an artifact, in characters: a compiler may print the whole module once per pass."""

REPRO, REDUCED = "repro-", "reduced"
"""Folders below an op's own that a user works in: the beginning of their names, and a name."""


def capped(text: str) -> str:
    """The text, cut at LIMIT, with a last line that says so."""
    if len(text) <= LIMIT:
        return text
    return f"{text[:LIMIT]}\n[cut here: {LIMIT:,} of {len(text):,} characters]\n"


def named(stem: str, backend: str, suffix: str = ".txt") -> str:
    """The name of a file of one backend, by its label: all backends of a run share the folder of an op."""
    return f"{stem}-{backend}{suffix}"


def ir_folder(backend: str) -> str:
    """The name of the folder, below an op's own, for its IR after each stage of a backend (a label)."""
    return f"ir-{backend}"


def write(run_dir: str | Path, op_id: str, name: str, content: str | bytes) -> str | None:
    """Writes an artifact of an op, text at most LIMIT long. Returns its path relative to the run folder.

    Returns None if the disk refuses it or the path leaves the folder: neither may change the verdict.
    """
    data = content if isinstance(content, bytes) else mask_secrets(capped(content)).encode("utf-8", "backslashreplace")
    path = f"{ARTIFACT_DIR}/{op_id}/{name}"
    try:
        place = inside(Path(run_dir), path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    except OSError:
        return None
    return path


def keep_results(run_dir: Path, limit: int) -> None:
    """Removes stored results of devices (compare-<backend>/result-<n>.npy), the largest first, until those of the run
    take at most `limit` bytes."""
    files = (run_dir / ARTIFACT_DIR).glob("*/compare-*/result-*.npy")
    sized = sorted(((path.lstat().st_size, path) for path in files), reverse=True)
    total = sum(size for size, _ in sized)
    for size, path in sized:
        if total <= limit:
            break
        inside(run_dir, path.relative_to(run_dir)).unlink()
        total -= size


# --- digests


def seal(run_dir: Path, run_id: str) -> None:
    """Notes size and digest of every artifact of a run that has ended. Raises OSError if the disk refuses it."""
    if not (run_dir / ARTIFACT_DIR).is_dir():
        (run_dir / FILE).unlink(missing_ok=True)
        return
    files = {path: stored.mark_of(run_dir / path) for path in _files(run_dir)}
    stored.write_json(run_dir / FILE, {"run_id": run_id, "files": files})


def unseal(run_dir: Path, run_id: str) -> None:
    """Reports what is damaged before the run goes on, and forgets the digests, since files will change."""
    check(run_dir, run_id)
    (run_dir / FILE).unlink(missing_ok=True)


def check(run_dir: Path, run_id: str, op_id: str = "") -> None:
    """Reads the artifacts of a run, or of one op, and reports those that are not what was stored.

    Says nothing of a run without digests: an older opscope wrote it, it was killed, or it left no artifacts. Nor where
    all artifacts have been cleared away.
    """
    if not (run_dir / ARTIFACT_DIR).is_dir():
        return
    try:
        known = _marks(run_dir, run_id)
    except damage.Damaged as error:
        damage.found(error.where, error.got, "the artifacts cannot be checked")
        return
    below = f"{ARTIFACT_DIR}/{op_id}/" if op_id else ""
    for path, mark in known.items():
        if path.startswith(below) and (got := _difference(run_dir, path, mark)):
            damage.found(run_dir / path, got, "its text may be wrong")


def read(run_dir: Path, path: str, run_id: str) -> bytes:
    """The content of an artifact that decides something. Raises Damaged, or OSError if there is no such file."""
    place = inside(run_dir, path)
    content = regular_file.read_bytes(place)
    mark = _marks(run_dir, run_id).get(path)
    if mark is not None and (len(content), stored.digest(content)) != mark:
        raise damage.Damaged(place, "another content")
    return content


def _files(run_dir: Path) -> Iterator[str]:
    """The artifacts of a run, relative to its folder, always in the same order; without the folders of users."""
    for root, below, names in os.walk(run_dir / ARTIFACT_DIR):
        below[:] = sorted(name for name in below if name != REDUCED and not name.startswith((REPRO, ".")))
        yield from (os.path.relpath(os.path.join(root, name), run_dir) for name in sorted(names))  # noqa: PTH118


def _difference(run_dir: Path, path: str, mark: FileMark) -> str:
    """What is wrong with a file; empty if nothing is."""
    try:
        stored_mark = stored.mark_of(inside(run_dir, path))
    except OSError as error:
        return (error.strerror or str(error)).lower()
    if stored_mark.size != mark.size:
        return f"{stored_mark.size} bytes instead of {mark.size}"
    return "" if stored_mark == mark else "another content"


def _marks(run_dir: Path, run_id: str) -> dict[str, FileMark]:
    """The files of a run with their marks; none if it has no digests. Raises Damaged."""
    path = run_dir / FILE
    try:
        status = path.stat()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise damage.Damaged(path, error.strerror or str(error)) from error
    return _marks_in(path, run_id, (status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=8)
def _marks_in(path: Path, run_id: str, version: tuple[int, ...]) -> dict[str, FileMark]:
    try:
        values = stored.read_json(path)
        files = {str(name): FileMark(*mark) for name, mark in values["files"].items()}
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise damage.Damaged(path, "no digests of artifacts") from error
    if values.get("run_id") != run_id:
        raise damage.Damaged(path, f"that of {values.get('run_id')}")
    return files
