"""SHA-256 in hex, of texts, JSON values and files: the keys of caches and the fingerprints of sources."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from opscope.base import content_digests, regular_file

DIGITS = 64
"""Hex digits of a full SHA-256; keys that users see are shorter."""
SOURCE_SUFFIXES = (".py", ".c", ".yaml", ".yml", ".fbs")
"""Suffixes of source files."""
NO_SOURCES = frozenset({"tests", "__pycache__"})
"""Folders without source files."""
_PIECE = 1 << 20


def words_digest(*words: str, digits: int = DIGITS) -> str:
    """The digest of texts, with a separator between them; for a single text, its SHA-256."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def json_digest(value: Any, digits: int = DIGITS) -> str:
    """The digest of a value as JSON. The order of keys does not matter; values that are not JSON count as text."""
    return words_digest(json.dumps(value, sort_keys=True, default=str), digits=digits)


def file_digest(path: Path) -> str:
    """The digest of a file's content. Raises OSError if it cannot be read."""
    with open(path, "rb", opener=regular_file.opener) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_digest(paths: Iterable[Path], *words: str, root: Path | None = None, digits: int = DIGITS) -> str:
    """The digest of texts and of the names and contents of files, in their order.

    The name of a file below `root` is its path relative to `root`. Raises OSError if a file cannot be read.
    """
    digest = hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass"))
    prefix = None if root is None else f"{root}{os.sep}"
    for path in paths:
        text = str(path)
        name = text[len(prefix) :] if prefix is not None and text.startswith(prefix) else path.name
        with open(path, "rb", buffering=0, opener=regular_file.opener) as file:
            digest.update(f"\0{name}\0{os.fstat(file.fileno()).st_size}\0".encode("utf-8", "surrogatepass"))
            while piece := file.read(_PIECE):
                digest.update(piece)
    return digest.hexdigest()[:digits]


def digest_of_sources(paths: Iterable[Path | str], *words: str, root: Path | None = None, digits: int = DIGITS) -> str:
    """The digest of texts and of the names and contents of source files, in their order.

    Names are as in `files_digest`. What has not changed since it was last read is not read again
    (opscope/base/content_digests.py). Raises OSError if a file cannot be read.
    """
    digest = hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass"))
    prefix = None if root is None else f"{root}{os.sep}"
    for path in paths:
        text = os.fspath(path)
        name = text[len(prefix) :] if prefix is not None and text.startswith(prefix) else os.path.basename(text)  # noqa: PTH119
        digest.update(f"\0{name}\0{content_digests.of(text)}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:digits]


def source_files(*folders: Path) -> Iterator[str]:
    """The source files in some folders and their subfolders, without tests, always in the same order."""
    for folder in folders:
        yield from _sources_below(str(folder))


def _sources_below(folder: str) -> Iterator[str]:
    """The source files of a folder, then those of its subfolders. One that cannot be read has none."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError:
        return
    below = []
    for entry in entries:
        if entry.is_dir():
            if entry.name not in NO_SOURCES and not entry.is_symlink():
                below.append(entry.path)
        elif entry.name.endswith(SOURCE_SUFFIXES):
            yield entry.path
    for path in below:
        yield from _sources_below(path)
