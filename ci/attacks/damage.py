"""The damage that attacks have in common: a few bytes of a file changed, or something else in a file's place."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

EXTREME = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\0\0\0\x80")
"""What a word is replaced by: in a flatbuffer an offset or a size."""

Way = Callable[[bytearray, int, random.Random], None]


def _flip(data: bytearray, at: int, draw: random.Random) -> None:
    data[at] ^= 1 << draw.randrange(8)


def _bytes(data: bytearray, at: int, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 2, 8, 64))):
        data[draw.randrange(len(data))] = draw.randrange(256)


def _words(data: bytearray, at: int, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 2, 8))):
        start = draw.randrange(max(len(data) // 4, 1)) * 4
        data[start : start + 4] = draw.choice(EXTREME)


def _cut(data: bytearray, at: int, draw: random.Random) -> None:
    del data[at:]


def _insert(data: bytearray, at: int, draw: random.Random) -> None:
    data[at:at] = draw.randbytes(draw.choice((1, 8, 100)))


def _remove(data: bytearray, at: int, draw: random.Random) -> None:
    del data[at : at + draw.choice((1, 8, 100))]


def _repeat(data: bytearray, at: int, draw: random.Random) -> None:
    data[at:at] = data[draw.randrange(len(data)) :][: draw.choice((1, 64, 4096))]


def _before(data: bytearray, at: int, draw: random.Random) -> None:
    data[:0] = draw.randbytes(draw.choice((1, 4096)))


def _behind(data: bytearray, at: int, draw: random.Random) -> None:
    data += draw.randbytes(draw.choice((1, 22, 4096)))


WAYS: dict[str, Way] = {
    "flip": _flip,
    "bytes": _bytes,
    "words": _words,
    "cut": _cut,
    "insert": _insert,
    "remove": _remove,
    "repeat": _repeat,
    "before": _before,
    "behind": _behind,
}
"""Way of changing bytes -> what does so, at a place that is drawn."""

SPECIAL = ("a pipe", "/dev/zero", "a folder", "a link to itself")
"""What stands in a file's place, for every attack that tries it."""


def spoiled(data: bytes, draw: random.Random, ways: tuple[str, ...] = tuple(WAYS)) -> tuple[str, bytes]:
    """One of some ways, and `data` changed in it; nothing can be changed of no data."""
    way, made = draw.choice(ways), bytearray(data)
    if made:
        WAYS[way](made, draw.randrange(len(made)), draw)
    return way, bytes(made)


def put_in_place(path: Path, kind: str) -> Path:
    """Something of a kind at `path`: one of `SPECIAL`, garbage, an empty file, nothing, ...; returns where it is."""
    if kind == "a name that is no text":
        path = path.with_name(os.fsdecode(b"special\xff") + path.suffix)
        path.touch()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "garbage":
        path.write_bytes(b"\x00\xff\xfe\x1b[31m{]" * 50)
    elif kind == "an empty file":
        path.touch()
    elif kind == "below a file":
        path.touch()
        return path / "x"
    elif kind == "no rights":
        path.touch(mode=0)
    elif kind != "nothing":
        path.symlink_to(path.name if kind == "a link to itself" else kind)
    return path
