"""The archive of a device image: a zip whose entries are named with their SHA-256 in its MANIFEST.

Writing and reading are here and nowhere else. Nothing is extracted to the disk, and nothing that is read is executed.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from opscope.base import regular_file
from opscope.simulator.host.errors import ImageError

FORMAT, VERSION = "opscope device image", 1
MANIFEST = "MANIFEST"
TENSORS = "tensors/"
"""Entries below it are stored as they are."""
LARGEST_RATIO = 100
"""Bytes of an entry for each byte that it takes in the archive, at most."""
LARGEST = 8 << 30
"""Bytes of all entries together, at most."""
MOST_ENTRIES = 65_534
LARGEST_MANIFEST = 16 << 20
STORED_RATIO = 50
"""What would be smaller than this by compressing is stored, far from what a reader refuses."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: the same module gives the same bytes."""
_LOCAL = struct.Struct("<4s5H3L2H")
_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib")
_TRY = "try `opscope image MODEL -o FILE.tti`"

Pieces = Iterable["bytes | memoryview"]


def write(path: Path, entries: Mapping[str, bytes | Pieces]) -> None:
    """Writes an archive, whole or not at all; the MANIFEST comes first. Raises OSError."""
    whole = {name: (content,) if isinstance(content, bytes) else tuple(content) for name, content in entries.items()}
    manifest = {"format": FORMAT, "version": VERSION, "sha256": {name: _digest(parts) for name, parts in whole.items()}}
    text = json.dumps(manifest, indent=0).encode()
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    part = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(part, "w", allowZip64=True) as archive:
            for name, parts in {MANIFEST: (text,), **whole}.items():
                _add(archive, name, parts)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _digest(parts: Pieces) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _add(archive: zipfile.ZipFile, name: str, parts: tuple[bytes | memoryview, ...]) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    size = sum(len(part) for part in parts)
    if not name.startswith(TENSORS) and size:
        packed = len(zlib.compress(b"".join(parts), 6))
        if packed < size and size <= packed * STORED_RATIO:
            info.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(info, "w", force_zip64=size >= zipfile.ZIP64_LIMIT) as entry:
        for part in parts:
            entry.write(part)


def read(path: Path) -> dict[str, bytes]:
    """Returns the content of each entry but the MANIFEST. Raises ImageError for anything but a whole archive."""
    try:
        with open(path, "rb", opener=regular_file.opener) as file:
            return _read(path, file)
    except OSError as error:
        got = (error.strerror or str(error)).lower()
        raise ImageError(f"{path}: expected a device image, got: {got}; try a .tti file") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, struct.error, UnicodeError) as error:
        raise ImageError(f"{path}: expected a device image, a zip, got: {error}; {_TRY}") from error
    except (ValueError, OverflowError, MemoryError, RuntimeError) as error:
        if isinstance(error, ImageError):
            raise
        raise ImageError(f"{path}: expected a device image, got {type(error).__name__}: {error}; {_TRY}") from error


def _read(path: Path, file: BinaryIO) -> dict[str, bytes]:
    head = file.read(2)
    if head[:1] == b"\x80":
        raise ImageError(f"{path}: expected a device image, a zip, got a pickle, which would run code; {_TRY}")
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        _check_entries(path, infos)
        index = _content(path, file, infos[0])
        if zlib.crc32(index) != infos[0].CRC:
            raise ImageError(f"{path}: expected the checksum of its {MANIFEST}, got another; {_TRY}")
        manifest = _manifest(path, index)
        named = {info.filename for info in infos} - {MANIFEST}
        if missing := sorted(set(manifest) - named):
            raise ImageError(f"{path}: expected the entry {missing[0]}, which its MANIFEST names, got none; {_TRY}")
        if strange := sorted(named - set(manifest)):
            raise ImageError(f"{path}: expected the entries of its MANIFEST, got {strange[0]} as well; {_TRY}")
        contents = {}
        for info in infos[1:]:
            content = _content(path, file, info)
            if hashlib.sha256(content).hexdigest() != manifest[info.filename]:
                raise ImageError(
                    f"{path}: expected the SHA-256 of its MANIFEST, got another of {info.filename}; {_TRY}"
                )
            contents[info.filename] = content
    return contents


def _check_entries(path: Path, infos: list[zipfile.ZipInfo]) -> None:
    """Checks names, kinds and sizes, before anything is unpacked."""
    if len(infos) > MOST_ENTRIES:
        raise ImageError(f"{path}: expected at most {MOST_ENTRIES} entries, got {len(infos)}")
    seen: set[str] = set()
    total = 0
    for info in infos:
        name, where = info.filename, f"{path}: {info.filename[:100]!r}"
        check_name(path, info.orig_filename)
        if name in seen:
            raise ImageError(f"{where}: expected one entry of that name, got two; {_TRY}")
        seen.add(name)
        mode = info.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG) or info.is_dir():
            kind = "a link" if stat.S_ISLNK(mode) else "a folder" if info.is_dir() else "a device or a pipe"
            raise ImageError(f"{where}: expected a file, got {kind}; {_TRY}")
        if name.lower().endswith(_PICKLES):
            raise ImageError(f"{where}: expected no pickle, which would run code, got one; {_TRY}")
        if info.flag_bits & 0x1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ImageError(f"{where}: expected an entry that is stored or deflated, got another kind; {_TRY}")
        if name.startswith(TENSORS) and info.compress_type != zipfile.ZIP_STORED:
            raise ImageError(f"{where}: expected tensors that are stored, got compressed ones; {_TRY}")
        if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
            raise ImageError(f"{where}: expected {info.file_size} bytes, got {info.compress_size}; {_TRY}")
        if info.file_size > LARGEST_RATIO * max(info.compress_size, 1):
            raise ImageError(
                f"{where}: expected at most {LARGEST_RATIO} bytes for each compressed one, "
                f"got {info.file_size} for {info.compress_size}"
            )
        total += info.file_size
    if total > LARGEST:
        raise ImageError(f"{path}: expected at most {LARGEST} bytes, got {total}")
    if not infos or infos[0].filename != MANIFEST:
        raise ImageError(
            f"{path}: expected {MANIFEST} as the first entry, got {infos[0].filename if infos else 'none'}"
        )
    if infos[0].file_size > LARGEST_MANIFEST:
        raise ImageError(f"{path}: expected a MANIFEST of {LARGEST_MANIFEST} bytes at most, got {infos[0].file_size}")


def check_name(path: Path, name: str) -> None:
    """Raises ImageError for a name that leaves the archive, or that another system could read as one that does."""
    parts = PurePosixPath(name).parts
    if (
        not name
        or name.startswith("/")
        or "\\" in name
        or "\0" in name
        or ":" in name
        or not name.isprintable()
        or any(part in (".", "..") for part in (*parts, *name.split("/")))
        or "//" in name
    ):
        raise ImageError(f"{path}: expected a name inside the image, got {name[:100]!r}; {_TRY}")


def _content(path: Path, file: BinaryIO, info: zipfile.ZipInfo) -> bytes:
    """Returns the bytes of an entry; their digest is checked by the caller."""
    file.seek(info.header_offset)
    head = file.read(_LOCAL.size)
    if len(head) != _LOCAL.size or head[:4] != b"PK\x03\x04":
        raise ImageError(f"{path}: expected {info.filename} where the archive's index has it, got other bytes; {_TRY}")
    *_, name_bytes, extra_bytes = _LOCAL.unpack(head)
    file.seek(name_bytes + extra_bytes, io.SEEK_CUR)
    data = file.read(min(info.compress_size, os.fstat(file.fileno()).st_size))
    if len(data) != info.compress_size:
        raise ImageError(f"{path}: expected {info.compress_size} bytes of {info.filename}, got fewer; {_TRY}")
    if info.compress_type == zipfile.ZIP_STORED:
        return data
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    unpacked = unpacker.decompress(data, info.file_size + 1)  # 0 would mean without limit
    if len(unpacked) != info.file_size:
        raise ImageError(f"{path}: expected {info.file_size} bytes of {info.filename}, got {len(unpacked)}; {_TRY}")
    return unpacked


def _manifest(path: Path, content: bytes) -> dict[str, str]:
    """Returns name -> SHA-256. Raises ImageError for another format or version."""
    try:
        manifest = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{path}: expected a MANIFEST in JSON, got {type(error).__name__}; {_TRY}") from error
    match manifest:
        case {"format": str(kind), "version": version, "sha256": dict(digests)} if kind == FORMAT:
            if type(version) is not int or version != VERSION:
                raise ImageError(f"{path}: expected version {VERSION} of the format, got {version!r}; {_TRY}")
            if not all(isinstance(digest, str) for digest in digests.values()):
                raise ImageError(f"{path}: expected a SHA-256 for each entry of its MANIFEST, got something else")
            return digests
    raise ImageError(f"{path}: expected a MANIFEST of format {FORMAT!r}, got another; {_TRY}")
