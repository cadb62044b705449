"""What is stored is verified: the one place that writes digests and checks them where stored things are read.

| what is stored | where its digest is | functions |
|---|---|---|
| a JSON object: a journal's line, a small file | its first field, 32 hex digits | `sealed`, `unsealed` |
| a file of bytes | a line in front of them | `write_bytes`, `read_bytes` |
| a folder that never changes | `digests.json` in it: size and digest of each file | `seal`, `checked` |

A digest covers the name of what is stored too, so that two files of a kind cannot change places. It is XXH3-128: 10
GB/s on one core, made to notice damage, not to withstand somebody who makes up files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import xxhash

from opscope.base import regular_file
from opscope.base.atomic_write import write_whole
from opscope.base.damage import Damaged

DIGITS = 32
"""Hex digits of a digest."""
_BEFORE, _AFTER = b'{"digest":"', b'",'
_END = len(_BEFORE) + DIGITS
_START = _END + len(_AFTER)
_FRAME = b"opscope stored 1 "
_HEADER = len(_FRAME) + DIGITS + 1
_PIECE = 1 << 20

DIGESTS = "digests.json"
"""The file in a sealed folder that makes it complete."""


def digest(content: bytes | memoryview, name: str = "") -> str:
    """The digest of what is stored under a name; 32 hex digits."""
    if not name:
        return xxhash.xxh3_128_hexdigest(content)
    state = xxhash.xxh3_128(name.encode("utf-8", "surrogatepass") + b"\0")
    state.update(content)
    return state.hexdigest()


# --- JSON objects


def sealed(text: str | bytes, name: str = "") -> bytes:
    """A JSON object (`{...}`, not empty) with its digest as the first field."""
    body = (text if isinstance(text, bytes) else text.encode("utf-8", "replace"))[1:]
    return b"".join((_BEFORE, digest(body, name).encode(), _AFTER, body))


def is_sealed(data: bytes) -> bool:
    """Whether an object begins with a digest."""
    return data.startswith(_BEFORE) and data[_END:_START] == _AFTER


def unsealed(data: bytes, name: str = "", where: object = "JSON") -> bytes:
    """The object without its digest; one that has none is returned as it is. Raises Damaged for another content."""
    if not is_sealed(data):
        return data
    if digest(memoryview(data)[_START:], name).encode() != data[len(_BEFORE) : _END]:
        raise Damaged(where, "another content")
    return b"{" + data[_START:]


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Writes a JSON object with its digest, whole or not at all. Raises OSError if the disk refuses it."""
    write_whole(path, sealed(json.dumps(values), path.name) + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """What `write_json` wrote. Raises Damaged for anything else, FileNotFoundError if there is no such file."""
    data = _content(path).removesuffix(b"\n")
    if not is_sealed(data):
        raise Damaged(path, "no digest")
    return json.loads(unsealed(data, path.name, path))


def _content(path: Path) -> bytes:
    """The content of a file. Raises Damaged if it exists and cannot be read."""
    try:
        return regular_file.read_bytes(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(path, error.strerror or str(error)) from error


# --- files of bytes


def write_bytes(path: Path, content: bytes) -> None:
    """Writes bytes with their digest, whole or not at all. Raises OSError if the disk refuses it."""
    write_whole(path, b"".join((_FRAME, digest(content, path.name).encode(), b"\n", content)))


def read_bytes(path: Path) -> bytes:
    """What `write_bytes` wrote. Raises Damaged for anything else, FileNotFoundError if there is no such file."""
    data = _content(path)
    content = data[_HEADER:]
    frame = b"".join((_FRAME, digest(content, path.name).encode(), b"\n"))
    if data[:_HEADER] != frame:
        raise Damaged(path, "another content" if data.startswith(_FRAME) else "no digest")
    return content


# --- folders


class FileMark(NamedTuple):
    """The size and the digest of a file in a sealed folder."""

    size: int
    digest: str


def seal(folder: Path, name: str) -> None:
    """Notes size and digest of every file in a folder that will be called `name`. Raises OSError."""
    write_json(folder / DIGESTS, {"folder": name, "files": {path: mark_of(folder / path) for path in files(folder)}})


def files(folder: Path) -> Iterator[str]:
    """The files in a folder and its subfolders, relative to it, always in the same order."""
    for root, below, names in os.walk(folder):
        below.sort()
        yield from (os.path.relpath(os.path.join(root, name), folder) for name in sorted(names) if name != DIGESTS)  # noqa: PTH118


def mark_of(path: Path) -> FileMark:
    """The size and the digest of a regular file. Raises OSError for anything else."""
    # Read in pieces, not memory-mapped: a file that is truncated meanwhile would end the process.
    state, size = xxhash.xxh3_128(), 0
    with open(path, "rb", buffering=0, opener=regular_file.opener) as file:
        piece = bytearray(min(_PIECE, os.fstat(file.fileno()).st_size + 1))
        view = memoryview(piece)
        while count := file.readinto(piece):
            state.update(view[:count])
            size += count
    return FileMark(size, state.hexdigest())


def marks(folder: Path) -> Mapping[str, FileMark] | None:
    """The files of a sealed folder by their relative paths, or those that are expected in one that is not sealed; None
    if nothing is known of it. Raises Damaged."""
    path = f"{folder}{os.sep}{DIGESTS}"
    try:
        status = os.stat(path)  # noqa: PTH116 - once an op
    except FileNotFoundError:
        return _expected.get(folder)
    except OSError as error:
        raise Damaged(path, error.strerror or str(error)) from error
    try:
        return _marks(folder, (status.st_ino, status.st_size, status.st_mtime_ns))
    except FileNotFoundError:  # a folder that was sealed just now has got its final name meanwhile
        return _expected.get(folder)
    except Damaged:
        if folder in _expected:  # it was sealed under the name that it gets next
            return _expected[folder]
        raise


@lru_cache(maxsize=64)
def _marks(folder: Path, version: tuple[int, ...]) -> dict[str, FileMark]:
    values = read_json(folder / DIGESTS)
    if values["folder"] != folder.name:
        raise Damaged(folder / DIGESTS, f"that of {values['folder']}")
    return {path: FileMark(*mark) for path, mark in values["files"].items()}


_expected: dict[Path, dict[str, FileMark]] = {}
"""Folder that is being filled -> the files that this process knows to be stored in it."""


def expect(folder: Path, files: Mapping[str, FileMark]) -> None:
    """Says what files of a folder hold that is not sealed yet: who wrote them has handed on their marks."""
    if files:
        _expected.setdefault(folder, {}).update(files)


def forget(folder: Path) -> None:
    """Expects nothing of a folder any more."""
    _expected.pop(folder, None)


def expected(folder: Path, paths: Iterable[str]) -> dict[str, FileMark]:
    """What is expected of some files of a folder; empty if the folder is sealed or nothing is known of it."""
    known = _expected.get(folder, {})
    return {path: known[path] for path in paths if path in known}


def is_sealed_folder(folder: Path) -> bool:
    """Whether a folder has been sealed, so that it is complete, or is another user's: whoever reads it says so."""
    try:
        return (folder / DIGESTS).is_file()
    except PermissionError:
        return True


def check_sizes(folder: Path) -> None:
    """Looks at every file of a sealed folder, without reading it. Raises Damaged if one is gone or has another size."""
    known = marks(folder)
    if known is None:
        raise Damaged(folder / DIGESTS, "no such file")
    for path, mark in known.items():
        try:
            size = os.stat(f"{folder}/{path}").st_size  # noqa: PTH116 - once per file of every export
        except OSError as error:
            raise Damaged(folder / path, (error.strerror or str(error)).lower()) from None
        if size != mark.size:
            raise Damaged(folder / path, f"{size} bytes instead of {mark.size}")


def check_all(folder: Path) -> None:
    """Reads every file of a sealed folder. Raises Damaged if one is not what was stored."""
    check_sizes(folder)
    for path in marks(folder) or ():
        checked(folder, path)


_right: dict[Path, tuple[int, int, int]] = {}
"""File -> inode, size and time of change with which this process has checked it."""


def checked(folder: Path, path: str) -> Path:
    """The place of a file of a folder, once it is known to hold what was stored; any file of a folder without digests.

    A file is read once in a process as long as it does not change. Raises Damaged.
    """
    place, known = folder / path, marks(folder)
    if known is None:
        if not place.exists():  # a folder that another process has just taken away, since it is damaged
            raise Damaged(place, "no such file")
        return place
    mark = known.get(path)
    if mark is None:
        raise Damaged(place, "a file that was not stored")
    try:
        status = place.stat()
        version = status.st_ino, status.st_size, status.st_mtime_ns
        if _right.get(place) == version:
            return place
        if status.st_size != mark.size:
            raise Damaged(place, f"{status.st_size} bytes instead of {mark.size}")
        actual = mark_of(place).digest
    except OSError as error:
        raise Damaged(place, (error.strerror or str(error)).lower()) from None
    if actual != mark.digest:
        raise Damaged(place, "another content")
    _right[place] = version
    return place


def gone(error: OSError, folder: Path) -> Damaged | None:
    """Damage instead of an error about a file below a folder, which was taken away after it had been checked."""
    name = str(error.filename or "")
    below = isinstance(error, FileNotFoundError) and name.startswith(f"{folder}{os.sep}")
    return Damaged(name, "no such file") if below else None


def digests_of(folder: Path, paths: Iterable[str]) -> list[str] | None:
    """The digests that some files of a sealed folder should have; None if they are unknown. Reads no file but one."""
    try:
        known = marks(folder)
    except Damaged:
        return None
    if known is None:
        return None
    marks_of_paths = [known.get(path) for path in paths]
    return None if None in marks_of_paths else [mark.digest for mark in marks_of_paths if mark is not None]
